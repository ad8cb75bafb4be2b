module clients.test

go 1.24
