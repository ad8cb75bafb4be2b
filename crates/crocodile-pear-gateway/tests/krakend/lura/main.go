// Lura with its own router: what the import is compared with.
package main

import (
	"log"
	"os"

	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/logging"
	"github.com/luraproject/lura/v2/proxy"
	"github.com/luraproject/lura/v2/router/gin"
)

func main() {
	// The names that KrakenD gives to Lura's own namespaces.
	config.ExtraConfigAlias["proxy"] = "github.com/devopsfaith/krakend/proxy"
	config.ExtraConfigAlias["backend/http"] = "github.com/devopsfaith/krakend/http"
	config.ExtraConfigAlias["router"] = "github.com/luraproject/lura/router/gin"
	service, err := config.NewParser().Parse(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	service.Normalize()
	logger, err := logging.NewLogger("ERROR", os.Stderr, "")
	if err != nil {
		log.Fatal(err)
	}
	gin.DefaultFactory(proxy.DefaultFactory(logger), logger).New().Run(service)
}
