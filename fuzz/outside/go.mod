module example.com/outside

go 1.26.0

require (
	allocfuzz v0.0.0
	github.com/apache/arrow-go/v18 v18.8.0
	github.com/dgraph-io/ristretto/v2 v2.4.2
)

require (
	github.com/AdaLogics/go-fuzz-headers v0.0.0-20240806141605-e8a1dd7889d6 // indirect
	github.com/bytedance/gopkg v0.1.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/ebitengine/purego v0.10.1 // indirect
	github.com/ncruces/wasm2go v0.4.22 // indirect
	golang.org/x/sys v0.49.0 // indirect
	modernc.org/memory v1.13.0 // indirect
)

replace allocfuzz => ../..
