module github.com/daybookhq/daybook/bench/schedule

go 1.26.0

require (
	github.com/adhocore/gronx v1.20.4
	github.com/daybookhq/daybook v0.0.0
	github.com/hashicorp/cronexpr v1.1.3
	github.com/robfig/cron/v3 v3.0.1
)

require github.com/stretchr/testify v1.12.1 // indirect

replace github.com/daybookhq/daybook => ../..
