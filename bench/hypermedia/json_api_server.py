"""Django REST framework with its JSON:API renderer: `json_api_server.py PORT FOLDER ARTICLES`."""

import sys

import django
from django.conf import settings

PORT, FOLDER, ARTICLES = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="bench",
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "rest_framework_json_api"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER + "/json_api.sqlite"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    REST_FRAMEWORK={
        "PAGE_SIZE": 5,
        "DEFAULT_PAGINATION_CLASS": "rest_framework_json_api.pagination.JsonApiPageNumberPagination",
        "DEFAULT_RENDERER_CLASSES": ["rest_framework_json_api.renderers.JSONRenderer"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework_json_api.parsers.JSONParser"],
        "DEFAULT_METADATA_CLASS": "rest_framework_json_api.metadata.JSONAPIMetadata",
        "DEFAULT_FILTER_BACKENDS": ["rest_framework_json_api.filters.OrderingFilter"],
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "UNAUTHENTICATED_USER": None,
    },
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.urls import include, path
from rest_framework import routers
from rest_framework_json_api import relations, serializers, views

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


class Comment(models.Model):
    text = models.CharField(max_length=50)
    article = models.ForeignKey(Article, related_name="comments", on_delete=models.CASCADE)

    class Meta:
        app_label = "main"


class AuthorSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Author
        fields = ["url", "name"]


class CommentSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Comment
        fields = ["url", "text"]


class ArticleSerializer(serializers.HyperlinkedModelSerializer):
    author = relations.ResourceRelatedField(
        queryset=Author.objects,
        related_link_view_name="article-related",
        related_link_url_kwarg="pk",
        self_link_view_name="article-relationships",
    )
    comments = relations.ResourceRelatedField(
        many=True,
        queryset=Comment.objects,
        related_link_view_name="article-related",
        related_link_url_kwarg="pk",
        self_link_view_name="article-relationships",
    )
    included_serializers = {"author": AuthorSerializer, "comments": CommentSerializer}
    related_serializers = {"author": AuthorSerializer, "comments": CommentSerializer}

    class Meta:
        model = Article
        fields = ["url", "title", "author", "comments"]


class Authors(views.ModelViewSet):
    queryset = Author.objects.order_by("id")
    serializer_class = AuthorSerializer


class Comments(views.ModelViewSet):
    queryset = Comment.objects.order_by("id")
    serializer_class = CommentSerializer


class Articles(views.ModelViewSet):
    queryset = Article.objects.order_by("id")
    serializer_class = ArticleSerializer


class ArticleRelationships(views.RelationshipView):
    queryset = Article.objects


router = routers.DefaultRouter(trailing_slash=False)
router.register("authors", Authors)
router.register("articles", Articles)
router.register("comments", Comments)
urlpatterns = [
    path("", include(router.urls)),
    path("articles/<pk>/relationships/<related_field>", ArticleRelationships.as_view(), name="article-relationships"),
    path("articles/<pk>/<related_field>", Articles.as_view({"get": "retrieve_related"}), name="article-related"),
]

with connection.schema_editor() as editor:
    editor.create_model(Author)
    editor.create_model(Article)
    editor.create_model(Comment)
Author.objects.bulk_create([Author(name=f"Author {number}") for number in range(20)])
Article.objects.bulk_create([Article(title=f"Article {number}", author_id=number % 20 + 1) for number in range(ARTICLES)])
Comment.objects.bulk_create([Comment(text=f"Comment {number}", article_id=number % ARTICLES + 1) for number in range(2 * ARTICLES)])

serve(PORT, get_wsgi_application())
