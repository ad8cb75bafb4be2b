// What h2spec is built of. It has no go.mod of its own: without this one, each build would take the newest of all.
module h2spec.test

go 1.17

require (
	github.com/fatih/color v1.13.0
	github.com/spf13/cobra v1.6.1
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.5.0
)

require (
	github.com/inconshreveable/mousetrap v1.0.1 // indirect
	github.com/mattn/go-colorable v0.1.9 // indirect
	github.com/mattn/go-isatty v0.0.14 // indirect
	github.com/spf13/pflag v1.0.5 // indirect
	golang.org/x/sys v0.4.0 // indirect
	golang.org/x/text v0.6.0 // indirect
)
