"""Django REST framework with authors and articles: `django_server.py PORT FOLDER ARTICLES`."""

from articles import PORT, begin, configure, models

configure(
    "articles",
    [],
    {
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
        "PAGE_SIZE": 25,
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    },
)

from django.core.wsgi import get_wsgi_application
from django.urls import include, path
from rest_framework import routers, serializers, viewsets

from serving import serve

Author, Article = models()


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

begin(Author, Article)
serve(PORT, get_wsgi_application())
