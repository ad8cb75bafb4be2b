"""Django with authors and their articles, for the servers of two formats."""

import sys

import django
from django.conf import settings

PORT, FOLDER, ARTICLES = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def configure(name, apps, rest_framework):
    """Sets Django up, with the addresses of the program that calls this."""
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="bench",
        ROOT_URLCONF="__main__",
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", *apps],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{FOLDER}/{name}.sqlite"}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None, **rest_framework},
    )
    django.setup()


def models():
    """The models of authors and articles; Django must be set up."""
    from django.db import models

    class Author(models.Model):
        name = models.CharField(max_length=50)

        class Meta:
            app_label = "main"

    class Article(models.Model):
        title = models.CharField(max_length=50)
        author = models.ForeignKey(Author, on_delete=models.CASCADE)

        class Meta:
            app_label = "main"

    return Author, Article


def begin(author, article, *others):
    """Creates the tables, twenty authors and the articles."""
    from django.db import connection

    with connection.schema_editor() as editor:
        for model in (author, article, *others):
            editor.create_model(model)
    author.objects.bulk_create([author(name=f"Author {number}") for number in range(20)])
    article.objects.bulk_create([article(title=f"Article {number}", author_id=number % 20 + 1) for number in range(ARTICLES)])
