// What a generated client needs to compile, and nothing of the product's. The client
// itself is generated beside it by scripts/client.sh, in a copy, and is not kept.
module clientcheck

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/oapi-codegen/runtime v1.6.0
)

require github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect
