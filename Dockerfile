# The program alone, on an empty base: nothing in it to break into, no shell, not
# root. Postgres is a service of its own: see compose.yaml.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# A static binary: there is no C library on an empty base.
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/holdfast ./cmd/holdfast \
 && mkdir -p /out/data

FROM scratch
# Brokers and identity providers are reached over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/holdfast /holdfast
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
# Inside a container all interfaces; who may reach them is the deployment's decision.
ENV HOLDFAST_ADDR=0.0.0.0:8080 HOLDFAST_DATA_DIR=/data
EXPOSE 8080
ENTRYPOINT ["/holdfast"]
CMD ["serve"]
