# Two images from one source; `make image` packs the tarball that `make dist` made, and without one it is made in here.
#   buildah build --format docker -t beehive:0.1.0 .                                                the cloud side
#   buildah build --format docker --target installation-package -t …/installation-package:v0.1.0 .   an upgrade source
# BUILDER needs Python 3.11 and objdump, unless dist/ is there. BASE needs a C library as new as the one that the tarball
# was built on, and nothing else: no Python, no shell is used at run time.
ARG BUILDER=docker.io/library/python:3.11-bookworm
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BUILDER} AS build
WORKDIR /src
COPY . .
RUN set -e; mkdir -p dist /tree /empty; \
    ls dist/beehive-*.tar.gz >/dev/null 2>&1 || python3 shipping/build.py --out dist; \
    tar xzf dist/beehive-*.tar.gz -C /tree --strip-components=1

FROM build AS build-tool
RUN [ -e dist/keadm ] || python3 shipping/build.py --one-file --out dist

# What a NodeUpgradeJob copies from: Beehive's own tree, and the tool as one file, because a real EdgeCore takes just that;
# it does so with the image's own sh, sleep and cp. To upgrade EdgeCore by it, put the new one in /usr/local/bin/edgecore.
FROM ${BASE} AS installation-package
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Beehive installation package" \
      org.opencontainers.image.description="Upgrade source for edge hosts: Beehive's tree, and its host tool as one file" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /tree /usr/local/lib/beehive/package
COPY --from=build-tool /src/dist/keadm /usr/local/bin/keadm

FROM ${BASE} AS cloud
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Beehive" \
      org.opencontainers.image.description="Upgrades the agents of edge nodes from one Kubernetes object" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /tree/beehive /usr/local/lib/beehive
COPY --from=build /tree/LICENSE /tree/sbom.cdx.json /usr/local/share/beehive/
COPY --from=build /src/configs/cloud.yaml /etc/beehive/cloud.yaml
COPY --from=build --chown=65532:65532 /empty /var/lib/beehive
ENV PATH=/usr/local/lib/beehive:/usr/bin:/bin HOME=/var/lib/beehive TMPDIR=/var/lib/beehive \
    SSL_CERT_FILE=/usr/local/lib/beehive/lib/certifi/cacert.pem
USER 65532:65532
WORKDIR /var/lib/beehive
# The root file system may be read-only; this is the one place that is written to.
VOLUME /var/lib/beehive
EXPOSE 10000 10002 9443 10350
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s CMD ["beehive", "ready", "--config", "/etc/beehive/cloud.yaml"]
ENTRYPOINT ["beehive"]
CMD ["--mode", "cloud", "--config", "/etc/beehive/cloud.yaml"]
