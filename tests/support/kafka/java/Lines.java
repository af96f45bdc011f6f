import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Answers requests: a line of JSON on standard input each, its answer a line on standard output. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Handler {
        Object answer(JsonNode request) throws Exception;
    }

    /** Serve until standard input ends; then the process ends at once, whatever it is at. */
    static void serve(Handler handler) throws Exception {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines));
        reader.setDaemon(true);
        reader.start();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever else wants to be printed must not stand among the answers.
        System.setOut(System.err);
        while (true) {
            out.println(JSON.writeValueAsString(answer(handler, lines.take())));
        }
    }

    /** What an exception says, by its own class: the one that a future wraps. */
    static String words(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && wraps(cause)) {
            cause = cause.getCause();
        }
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    private static boolean wraps(Throwable error) {
        return error instanceof java.util.concurrent.ExecutionException
            || error instanceof java.lang.reflect.InvocationTargetException;
    }

    private static ObjectNode answer(Handler handler, String line) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("result", JSON.valueToTree(handler.answer(JSON.readTree(line))));
        } catch (Throwable error) {
            answer.put("error", words(error));
        }
        return answer;
    }

    private static void read(BlockingQueue<String> lines) {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(line);
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }
}
