"""Django REST framework with authors and articles: `django_server.py PORT FOLDER ARTICLES`."""

import sys

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

from serving import serve


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


serve(PORT, get_wsgi_application())
