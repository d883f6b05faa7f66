# syntax=docker/dockerfile:1
# The image of a release: the binary alone, which does not run as root. `release/image` makes the folder that it is built in.
#
#   docker run -p 127.0.0.1:3000:3000 ghcr.io/fermata-chat/fermata
#
# shows the demo. With a model of your own, say who may use it:
#
#   docker run -p 127.0.0.1:3000:3000 -v fermata:/data -e OPENAI_API_KEY -e FERMATA_AUTH=token -e FERMATA_TOKENS=alice:<token> …
#
# MCP servers that are programs need their own interpreters: copy /usr/local/bin/fermata into an image that has them.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG TARGETARCH
ARG VERSION
LABEL org.opencontainers.image.title="Fermata" \
      org.opencontainers.image.description="A chat server that speaks the AI SDK UI Message Stream and holds a tool call until it is answered." \
      org.opencontainers.image.source="https://github.com/fermata-chat/fermata" \
      org.opencontainers.image.licenses="Apache-2.0 OR MIT" \
      org.opencontainers.image.version="${VERSION}"
COPY ${TARGETARCH}/fermata /usr/local/bin/fermata
# A volume that is new takes over who owns the folder.
COPY --chown=65532:65532 data /data
# Where fermata.toml is looked for, and where the database is.
WORKDIR /data
# Without authentication it serves nothing but the demo.
ENV FERMATA_BIND=0.0.0.0 FERMATA_INSECURE_BIND=demo
VOLUME /data
EXPOSE 3000
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=15s --retries=3 CMD ["/usr/local/bin/fermata", "health"]
ENTRYPOINT ["/usr/local/bin/fermata"]
