"""A server for WSGI applications that keeps its connections, with a thread for each."""

from socketserver import ThreadingMixIn
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server


class Kept(WSGIRequestHandler):
    """Keeps its connections."""

    protocol_version = "HTTP/1.1"

    def handle(self):
        while True:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                return
            handler = ServerHandler(self.rfile, self.wfile, self.get_stderr(), self.get_environ(), multithread=True)
            handler.http_version = "1.1"
            handler.request_handler = self
            handler.run(self.server.get_app())

    def log_message(self, *_):
        pass


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


def serve(port, application):
    make_server("127.0.0.1", port, application, server_class=Threads, handler_class=Kept).serve_forever()
