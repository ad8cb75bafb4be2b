"""Django REST framework with its JSON:API renderer: `json_api_server.py PORT FOLDER ARTICLES`."""

from articles import ARTICLES, PORT, begin, configure
from articles import models as shared

configure(
    "json_api",
    ["rest_framework_json_api"],
    {
        "PAGE_SIZE": 5,
        "DEFAULT_PAGINATION_CLASS": "rest_framework_json_api.pagination.JsonApiPageNumberPagination",
        "DEFAULT_RENDERER_CLASSES": ["rest_framework_json_api.renderers.JSONRenderer"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework_json_api.parsers.JSONParser"],
        "DEFAULT_METADATA_CLASS": "rest_framework_json_api.metadata.JSONAPIMetadata",
        "DEFAULT_FILTER_BACKENDS": ["rest_framework_json_api.filters.OrderingFilter"],
    },
)

from django.core.wsgi import get_wsgi_application
from django.db import models
from django.urls import include, path
from rest_framework import routers
from rest_framework_json_api import relations, serializers, views

from serving import serve

Author, Article = shared()


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

begin(Author, Article, Comment)
Comment.objects.bulk_create([Comment(text=f"Comment {number}", article_id=number % ARTICLES + 1) for number in range(2 * ARTICLES)])

serve(PORT, get_wsgi_application())
