import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * The check of a broker of Amazon MSK: a token is a signed request to connect, of which the signature is computed again
 * (AWS Signature Version 4, query parameters). The JAAS options "secret_KEYID" are the secrets that it knows, "region" is
 * its region, and "lifetime" the seconds after which a session ends.
 */
public final class SignedAwsTokens implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private Map<String, ?> options;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaas) {
        options = jaas.get(0).getOptions();
    }

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback each : callbacks) {
            if (!(each instanceof OAuthBearerValidatorCallback callback)) {
                continue; // extensions, which a login by IAM does not have
            }
            try {
                callback.token(check(callback.tokenValue()));
            } catch (Exception error) {
                callback.error("access_denied", String.valueOf(error.getMessage()), null);
            }
        }
    }

    private OAuthBearerToken check(String text) throws Exception {
        URI uri = URI.create(new String(Base64.getUrlDecoder().decode(text), StandardCharsets.UTF_8));
        TreeMap<String, String> fields = new TreeMap<>();
        for (String pair : uri.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            fields.put(parts[0], parts[1]);
        }
        String region = options.get("region").toString();
        String date = fields.get("X-Amz-Date");
        String scope = date.substring(0, 8) + "/" + region + "/kafka-cluster/aws4_request";
        String[] credential = decode(fields.get("X-Amz-Credential")).split("/", 2);
        require(uri.getHost().equals("kafka." + region + ".amazonaws.com"), "wrong host " + uri.getHost());
        require(credential[1].equals(scope), "wrong scope " + credential[1]);
        require(decode(fields.get("Action")).equals("kafka-cluster:Connect"), "wrong action");
        require(fields.remove("User-Agent").startsWith("topiarist"), "wrong user agent");
        String signature = fields.remove("X-Amz-Signature");
        Object secret = options.get("secret_" + credential[0]);
        require(secret != null, "unknown key " + credential[0]);
        String query = fields.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining("&"));
        String request = "GET\n/\n" + query + "\nhost:" + uri.getHost() + "\n\nhost\n" + hash("");
        String toSign = "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hash(request);
        byte[] key = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : List.of(date.substring(0, 8), region, "kafka-cluster", "aws4_request")) {
            key = hmac(key, part);
        }
        require(HexFormat.of().formatHex(hmac(key, toSign)).equals(signature), "wrong signature");
        long start = Instant.from(DATE.parse(date)).toEpochMilli();
        long end = start + 1000 * Long.parseLong(fields.get("X-Amz-Expires"));
        require(System.currentTimeMillis() < end, "expired");
        long lifetime = System.currentTimeMillis() + 1000 * Long.parseLong(options.get("lifetime").toString());
        String session = fields.containsKey("X-Amz-Security-Token") ? "/session" : "";
        return new Token(text, credential[0] + session, start, Math.min(end, lifetime));
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static void require(boolean condition, String message) {
        if (!condition) {
            throw new IllegalArgumentException(message);
        }
    }

    private static String hash(String text) throws Exception {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    }

    private static byte[] hmac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {}

    private record Token(String value, String principalName, Long startTimeMs, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }
    }
}
