"""Django REST framework with authors and articles: `django_server.py PORT FOLDER ARTICLES`."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings

PORT, FOLDER, ARTICLES = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="bench",
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER + "/articles.sqlite"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    REST_FRAMEWORK={
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
        "PAGE_SIZE": 25,
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "UNAUTHENTICATED_USER": None,
    },
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.urls import include, path
from rest_framework import routers, serializers, viewsets


class Author(models.Model):
    name = models.CharField(max_length=50)

    class Meta:
        app_label = "main"


class Article(models.Model):
    title = models.CharField(max_length=50)
    author = models.ForeignKey(Author, on_delete=models.CASCADE)

    class Meta:
        app_label = "main"


class AuthorSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Author
        fields = ["url", "name"]


class ArticleSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Article
        fields = ["url", "title", "author"]


class Authors(viewsets.ReadOnlyModelViewSet):
    queryset = Author.objects.order_by("id")
    serializer_class = AuthorSerializer


class Articles(viewsets.ReadOnlyModelViewSet):
    queryset = Article.objects.order_by("id")
    serializer_class = ArticleSerializer


router = routers.DefaultRouter()
router.register("authors", Authors)
router.register("articles", Articles)
urlpatterns = [path("", include(router.urls))]

with connection.schema_editor() as editor:
    editor.create_model(Author)
    editor.create_model(Article)
Author.objects.bulk_create([Author(name=f"Author {number}") for number in range(20)])
Article.objects.bulk_create([Article(title=f"Article {number}", author_id=number % 20 + 1) for number in range(ARTICLES)])


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


make_server("127.0.0.1", PORT, get_wsgi_application(), server_class=Threads, handler_class=Kept).serve_forever()
