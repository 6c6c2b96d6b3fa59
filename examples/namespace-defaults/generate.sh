#!/usr/bin/env bash
# Makes bailiffv1/ from the contract: messages and the client of the bus. Needs python3 -m pip install grpcio-tools==1.85.1, which
# brings protoc, and Go.
set -euo pipefail
cd "$(dirname "$0")"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.10
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1
PATH="$PATH:$(go env GOPATH)/bin"
options=()
# The files name no Go package, so each is told its own.
for file in ../../proto/bailiff/v1/*.proto; do
    package="Mbailiff/v1/$(basename "$file")=namespace-defaults/bailiffv1"
    options+=("--go_opt=$package" "--go-grpc_opt=$package")
done
python3 -m grpc_tools.protoc -I ../../proto "${options[@]}" \
    --go_out=. --go_opt=module=namespace-defaults --go-grpc_out=. --go-grpc_opt=module=namespace-defaults \
    ../../proto/bailiff/v1/*.proto
