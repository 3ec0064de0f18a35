"""What an operator watches of an edge host's uplink. Pure."""

from beehive.figures import CERTIFICATE_ENDS, GAUGE, Metric

CONNECTED = Metric("beehive_edge_connected", GAUGE, "1 while this host has a session with the cloud")
PENDING = Metric("beehive_edge_reports_pending", GAUGE, "Reports that the cloud has not acknowledged yet")
ALL = (CONNECTED, PENDING, CERTIFICATE_ENDS)
