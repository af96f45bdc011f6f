import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler;

/** Kafka's own validator of signed tokens, which writes the extensions of a login into the file of the option "seen". */
public final class SeenExtensions implements AuthenticateCallbackHandler {
    private final OAuthBearerValidatorCallbackHandler validator = new OAuthBearerValidatorCallbackHandler();
    private Path seen;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaas) {
        seen = Path.of(jaas.get(0).getOptions().get("seen").toString());
        validator.configure(configs, mechanism, jaas);
    }

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        validator.handle(callbacks);
        for (Callback each : callbacks) {
            if (each instanceof OAuthBearerExtensionsValidatorCallback callback) {
                Files.writeString(seen, new TreeMap<>(callback.inputExtensions().map()).toString());
            }
        }
    }

    @Override
    public void close() {
        validator.close();
    }
}
