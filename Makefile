# The tasks of this repository; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go

# The linter and the generators have their own module (tools/go.mod) and are
# built once per version of it.
LINTER := bin/golangci-lint
SQLC := bin/sqlc
CODEGEN := bin/oapi-codegen
TOOLS := tools/go.mod tools/go.sum

.PHONY: help run build test soak fuzz lint client fmt generate verify bench model postgres browser peers clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: postgres build ## start Holdfast without settings: private Postgres, sandbox broker, demo account
	@exec bin/holdfast serve

build: ## build bin/holdfast
	$(GO) build -o bin/holdfast ./cmd/holdfast

test: postgres ## run all tests with the race detector, against a real Postgres
	$(GO) test -race -shuffle=on -timeout 20m ./...

soak: postgres ## run the large tests: an outage, failures of streams, and a failing queue
	HOLDFAST_TEST_PURCHASES=2000 $(GO) test -count=1 -timeout 30m -run TestOutage -v ./cmd/holdfast
	HOLDFAST_TEST_EVENTS=30000 HOLDFAST_TEST_RATE=500 $(GO) test -count=1 -timeout 30m -run TestEventsThroughEverything -v ./cmd/holdfast
	HOLDFAST_TEST_DUE=10000 HOLDFAST_TEST_TROUBLE=61 $(GO) test -count=1 -timeout 30m -run 'TestTenThousand|TestRiverTable' -v ./jobs

fuzz: postgres ## send generated requests, valid and invalid, to every route for five minutes
	HOLDFAST_TEST_FUZZ=5m $(GO) test -count=1 -timeout 30m -run TestGeneratedRequests -v ./cmd/holdfast

lint: $(LINTER) ## check style, words, likely mistakes and import rules
	@scripts/words.sh
	$(LINTER) run ./...

client: postgres build $(CODEGEN) ## generate a client from the OpenAPI document, compile it and make a purchase with it
	@scripts/client.sh

fmt: $(LINTER) ## format the code as make lint expects it
	$(LINTER) fmt ./...

generate: $(SQLC) ## generate the db package of each package from sql/queries
	$(SQLC) generate -f sql/sqlc.yaml

verify: $(SQLC) ## check that generated code and go.mod are current
	$(SQLC) diff -f sql/sqlc.yaml
	$(GO) mod tidy -diff
	$(GO) mod verify

bench: postgres build ## measure Holdfast next to baselines of the same run (half an hour)
	$(GO) build -o bin/bench ./bench
	bin/bench

model: ## check the model of the purchase protocol in docs/model with Spin (two minutes)
	@scripts/model.sh

postgres: ## install a Postgres server if none is found (package manager, else npm)
	@scripts/postgres.sh

browser: ## install a browser for the console's tests
	@scripts/browser.sh

peers: ## install nginx and PgBouncer for the tests that use them
	@scripts/peers.sh

clean: ## remove the built binaries
	rm -rf bin

$(LINTER): $(TOOLS)
	$(GO) build -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(SQLC): $(TOOLS)
	$(GO) build -C tools -o ../$@ github.com/sqlc-dev/sqlc/cmd/sqlc

$(CODEGEN): $(TOOLS)
	$(GO) build -C tools -o ../$@ github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
