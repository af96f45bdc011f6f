import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Kafka's own parser of topic configs, in the release whose jars are on the class path: what its admin code says of a
 * map of overrides, and what a broker does that loads it. The class and its methods moved from release to release.
 */
public final class Configs {
    private static final Class<?> LOG_CONFIG = find();
    private static final Object OWNER = owner();

    public static void main(String[] arguments) throws Exception {
        Lines.serve(Configs::answer);
    }

    private static Object answer(JsonNode request) throws Exception {
        if (request.get("op").asText().equals("names")) {
            return names();
        }
        boolean tiered = request.get("tiered").asBoolean();
        List<Object> results = new ArrayList<>();
        for (JsonNode config : request.get("configs")) {
            results.add(judged(config, tiered));
        }
        return results;
    }

    private static Map<String, Object> judged(JsonNode config, boolean tiered) throws Exception {
        Properties overrides = new Properties();
        config.fieldNames().forEachRemaining(key -> overrides.setProperty(key, config.get(key).asText()));
        Map<String, Object> result = new HashMap<>();
        result.put("refused", attempt(() -> call(longest("validate"), overrides, tiered)));
        result.put("broken", attempt(() -> result.put("values", values(load(overrides, tiered), overrides))));
        return result;
    }

    /** What a broker does: parse, and (by release) check once more. */
    private static AbstractConfig load(Properties overrides, boolean tiered) throws Exception {
        AbstractConfig loaded = (AbstractConfig) call(longest("fromProps"), overrides, tiered);
        Method check = longest("validateRemoteStorageOnlyIfSystemEnabled");
        if (check != null) {
            check.invoke(OWNER, loaded.values(), tiered, true);
        }
        return loaded;
    }

    private static Map<String, String> values(AbstractConfig loaded, Properties overrides) {
        Map<String, String> values = new TreeMap<>();
        for (String key : overrides.stringPropertyNames()) {
            if (loaded.values().containsKey(key)) {
                values.put(key, ConfigDef.convertToString(loaded.values().get(key), loaded.typeOf(key)));
            }
        }
        return values;
    }

    /**
     * Call a method: a map before the overrides is what there was before (nothing), one after them what the broker is
     * set to (which must not be empty, or less is checked); a second boolean says that it comes from ZooKeeper.
     */
    private static Object call(Method method, Properties overrides, boolean tiered) throws Exception {
        Class<?>[] types = method.getParameterTypes();
        Object[] given = new Object[types.length];
        boolean tieredGiven = false;
        boolean overridesGiven = false;
        for (int index = 0; index < types.length; index++) {
            if (types[index] == Properties.class) {
                given[index] = overrides;
                overridesGiven = true;
            } else if (types[index] == Map.class) {
                given[index] = overridesGiven ? Map.of("preallocate", false) : Map.of();
            } else if (types[index] == boolean.class) {
                given[index] = tieredGiven ? true : tiered;
                tieredGiven = true;
            } else {
                throw new IllegalStateException("what is this for? " + method);
            }
        }
        return method.invoke(OWNER, given);
    }

    private static Object names() throws Exception {
        Object names = longest("configNames").invoke(OWNER);
        List<String> result = new ArrayList<>();
        if (names instanceof Iterable<?>) {
            ((Iterable<?>) names).forEach(name -> result.add(name.toString()));
        } else {
            Object iterator = names.getClass().getMethod("toArray", Class.forName("scala.reflect.ClassTag"))
                .invoke(names, scalaTag());
            Arrays.asList((Object[]) iterator).forEach(name -> result.add(name.toString()));
        }
        return result;
    }

    private static Object scalaTag() throws Exception {
        Class<?> module = Class.forName("scala.reflect.ClassTag$");
        return module.getMethod("apply", Class.class).invoke(module.getField("MODULE$").get(null), Object.class);
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static String attempt(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return null;
        } catch (InvocationTargetException error) {
            return Lines.words(error);
        }
    }

    private static Method longest(String name) {
        return Arrays.stream(LOG_CONFIG.getMethods())
            .filter(method -> method.getName().equals(name))
            .filter(method -> OWNER != null || Modifier.isStatic(method.getModifiers()))
            .max(Comparator.comparingInt(Method::getParameterCount))
            .orElse(null);
    }

    private static Class<?> find() {
        for (String name : List.of("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig$")) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException older) {
                continue;
            }
        }
        throw new IllegalStateException("no LogConfig");
    }

    private static Object owner() {
        try {
            return LOG_CONFIG.getField("MODULE$").get(null);
        } catch (ReflectiveOperationException java) {
            return null;
        }
    }
}
