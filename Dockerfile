# Two images from one source:
#   buildah build --format docker -t beehive .                                     the cloud side
#   buildah build --format docker --target installation-package -t …/installation-package:v0.1.0 .   an upgrade source
# BUILDER has Python 3.11 and objdump; BASE has a C library as new as the builder's, and nothing else is asked of it.
ARG BUILDER=docker.io/library/python:3.11-bookworm
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BUILDER} AS build
WORKDIR /src
COPY requirements.lock pyproject.toml LICENSE README.md ./
COPY shipping shipping
COPY beehive beehive
COPY modules modules
COPY cmd cmd
COPY configs configs
RUN python3 shipping/build.py --out /out && mkdir /tree && tar xzf /out/beehive-*.tar.gz -C /tree --strip-components=1 \
    && mkdir -p /empty && cp configs/cloud.yaml /tree/cloud.yaml

FROM build AS build-tool
RUN python3 shipping/build.py --one-file --out /out

# What a NodeUpgradeJob copies from: Beehive's own tree, and the tool as one file, because a real EdgeCore takes just that.
FROM scratch AS installation-package
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Beehive installation package" \
      org.opencontainers.image.description="Upgrade source for edge hosts: Beehive's tree and its host tool as one file" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /tree /usr/local/lib/beehive/package
COPY --from=build-tool /out/keadm /usr/local/bin/keadm

FROM ${BASE} AS cloud
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Beehive" \
      org.opencontainers.image.description="Upgrades the agents of edge nodes from one Kubernetes object" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /tree/beehive /usr/local/lib/beehive
COPY --from=build /tree/LICENSE /tree/sbom.cdx.json /usr/local/share/beehive/
COPY --from=build /tree/cloud.yaml /etc/beehive/cloud.yaml
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /empty /var/lib/beehive
ENV PATH=/usr/local/lib/beehive:/usr/bin:/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt HOME=/var/lib/beehive
USER 65532:65532
WORKDIR /var/lib/beehive
# The root file system may be read-only; this is the one place that is written to.
VOLUME /var/lib/beehive
EXPOSE 10000 10002 9443 10350
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s CMD ["beehive", "ready", "--config", "/etc/beehive/cloud.yaml"]
ENTRYPOINT ["beehive"]
CMD ["--mode", "cloud", "--config", "/etc/beehive/cloud.yaml"]
