"""The port to the host: files, service manager, images, the tool."""
