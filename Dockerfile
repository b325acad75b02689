# The gateway alone: SIP server, media engine, API. Nothing is compiled; the SQLite driver carries its binaries.
FROM node:24.11.1-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY bin bin
COPY config config
COPY net net
COPY sip sip
COPY media media
COPY src src
COPY examples examples
COPY bench bench
COPY dashboard dashboard
RUN npm run build && npm prune --omit=dev --no-audit --no-fund && rm -rf dist/bench dist/.tsbuildinfo

FROM node:24.11.1-bookworm-slim
ENV NODE_ENV=production \
    TRUNKLINE_DATA_DIR=/data \
    TRUNKLINE_HTTP_HOST=0.0.0.0 \
    TRUNKLINE_SIP_HOST=0.0.0.0
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/bin bin
COPY --from=build /build/config config
COPY --from=build /build/dist dist
COPY LICENSE README.md CHANGELOG.md ./
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 3000/tcp 5060/udp 5060/tcp
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:'+(process.env.TRUNKLINE_HTTP_PORT||3000)+'/healthz').then(r=>process.exit(r.ok?0:1),()=>process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "bin/trunkline.js"]
CMD ["start"]
