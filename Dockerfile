# syntax=docker/dockerfile:1
# A small image of the server alone, with the web demo in it, which does not run as root.
#
#   docker build -t fermata .
#   docker run -p 127.0.0.1:3000:3000 -v fermata:/data -e FERMATA_AUTH=token -e FERMATA_TOKENS=alice:<token> fermata
#
# MCP servers that are programs need their own interpreters: copy /usr/local/bin/fermata into an image that has them.

# The web demo: a folder of files, for whatever processor the server is built.
FROM --platform=$BUILDPLATFORM node:22-bookworm-slim AS demo
WORKDIR /src
# What is installed changes less often than what is built of it.
COPY package.json package-lock.json ./
COPY packages/fermata-chat/package.json packages/fermata-chat/
COPY web-demo/package.json web-demo/
RUN --mount=type=cache,target=/root/.npm npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY packages packages
COPY web-demo web-demo
RUN npm run build -w fermata-web-demo

FROM rust:1.94-slim-bookworm AS build
# The allocator is built from C. The others are for bench/build-release.
RUN apt-get update && apt-get install -y --no-install-recommends make bolt-19 libbolt-19-dev && rm -rf /var/lib/apt/lists/* \
    && rustup component add llvm-tools
WORKDIR /src
COPY . .
# The binary carries it, so it must be there first.
COPY --from=demo /src/web-demo/dist web-demo/dist
# What the log and the metrics call this build, such as the commit.
ARG FERMATA_BUILD
# Both folders are kept between builds, so that only what changed is built again.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    bench/build-release /fermata \
    && mkdir /data

FROM debian:bookworm-slim
# Whom to trust when it calls a model API.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /fermata /usr/local/bin/fermata
# A volume that is new takes over who owns the folder.
COPY --from=build --chown=65532:65532 /data /data
# Where fermata.toml is looked for.
WORKDIR /data
# It does not start before FERMATA_AUTH and FERMATA_TOKENS say who may use it.
ENV FERMATA_BIND=0.0.0.0 DATABASE_URL=sqlite:///data/fermata.db
VOLUME /data
EXPOSE 3000
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=15s --retries=3 CMD ["/usr/local/bin/fermata", "health"]
ENTRYPOINT ["/usr/local/bin/fermata"]
