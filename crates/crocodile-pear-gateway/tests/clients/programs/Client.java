// java.net.http: reads cases, asks the base URL, and prints what came of each as a line of JSON.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

public class Client {
    public static void main(String[] arguments) throws Exception {
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        var clients = new HttpClient[] {
            builder.followRedirects(HttpClient.Redirect.NEVER).build(),
            builder.followRedirects(HttpClient.Redirect.NORMAL).build(),
        };
        for (String line; (line = reader.readLine()) != null;) {
            var words = line.split("\t", -1);
            try {
                System.out.println(ask(clients[words[6].equals("follow") ? 1 : 0], arguments[0], words));
            } catch (Exception error) {
                System.out.println("{\"name\": " + quote(words[0]) + ", \"error\": true}");
            }
        }
    }

    static String ask(HttpClient client, String base, String[] words) throws Exception {
        var body = HttpRequest.BodyPublishers.noBody();
        if (!words[4].equals("-")) {
            body = HttpRequest.BodyPublishers.ofString("y".repeat(Integer.parseInt(words[4])));
            if (words[5].equals("chunked")) {
                // A publisher that does not say how long it is.
                body = HttpRequest.BodyPublishers.fromPublisher(body);
            }
        }
        var request = HttpRequest.newBuilder(URI.create(base + words[2])).method(words[1], body);
        for (var field : words[3].split("\u001f")) {
            if (!field.isEmpty()) {
                var at = field.indexOf(": ");
                request.header(field.substring(0, at), field.substring(at + 2));
            }
        }
        var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString(StandardCharsets.ISO_8859_1));
        List<String> fields = new ArrayList<>();
        answer.headers().map().forEach((name, values) -> {
            for (var value : values) {
                fields.add("[" + quote(name.toLowerCase()) + ", " + quote(value) + "]");
            }
        });
        var at = answer.uri().getRawPath() + (answer.uri().getRawQuery() == null ? "" : "?" + answer.uri().getRawQuery());
        return "{\"name\": " + quote(words[0]) + ", \"status\": " + answer.statusCode() + ", \"fields\": [" + String.join(", ", fields)
            + "], \"body\": " + quote(answer.body()) + ", \"at\": " + quote(at) + "}";
    }

    static String quote(String text) {
        var quoted = new StringBuilder("\"");
        for (var c : text.toCharArray()) {
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
