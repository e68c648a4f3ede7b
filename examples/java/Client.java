import com.github.luben.zstd.ZstdDecompressCtx;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.*;
import org.json.JSONObject;

/** A gateway client: prints every event as one line of JSON, and resumes after a lost connection. See ../README.md. */
public final class Client {
    private static final int WINDOW_LOG_MAX = 21;
    private static final int MESSAGE_BYTES_MAX = 64 << 20;
    private static final int OUT_BYTES = 1 << 17;
    /** GUILDS, GUILD_MESSAGES and MESSAGE_CONTENT. */
    private static final int INTENTS = 1 | 1 << 9 | 1 << 15;
    /** The node refuses these clients, and would refuse them again. */
    private static final Set<Integer> FATAL_CODES = Set.of(4002, 4004, 4010, 4011, 4012, 4013, 4014, 4015);
    private static final int LOST = -1;

    private final HttpClient http = HttpClient.newHttpClient();
    private final String url;
    private final String token;
    private final String query;
    private final byte[] dictionary;
    private String sessionId;
    private String resumeUrl;
    private long seq;

    private Client(String url, String token, String dictionaryId) throws Exception {
        this.url = url;
        this.token = token;
        query = "/?v=10&encoding=json&compress=zstd-stream" + (dictionaryId == null ? "" : "&dict=" + dictionaryId);
        dictionary = dictionaryId == null ? null : fetchDictionary(dictionaryId);
    }

    /** A dictionary is named by its content, so a client may keep it for ever. */
    private byte[] fetchDictionary(String id) throws Exception {
        var address = URI.create(url.replaceFirst("^ws", "http") + "/dictionaries/" + id);
        var request = HttpRequest.newBuilder(address).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
        if (answer.statusCode() != 200) {
            throw new IOException("no dictionary " + id + ": " + new String(answer.body(), StandardCharsets.UTF_8));
        }
        return answer.body();
    }

    /** What a connection received: whole messages, then the code with which it ended. */
    private static final class Inbox implements WebSocket.Listener {
        final LinkedBlockingQueue<Object> received = new LinkedBlockingQueue<>();
        private final ByteArrayOutputStream message = new ByteArrayOutputStream();

        @Override
        public CompletionStage<?> onBinary(WebSocket socket, ByteBuffer part, boolean isLast) {
            var bytes = new byte[part.remaining()];
            part.get(bytes);
            message.writeBytes(bytes);
            if (isLast) {
                received.add(message.toByteArray());
                message.reset();
            }
            socket.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
            received.add(code);
            return null;
        }

        @Override
        public void onError(WebSocket socket, Throwable error) {
            received.add(LOST);
        }
    }

    /** Runs one connection to its end. Returns the code with which the node closed it, or LOST. */
    private int runConnection() throws InterruptedException {
        var inbox = new Inbox();
        var address = URI.create((sessionId == null ? url : resumeUrl) + query);
        // A new connection is a new stream.
        try (var stream = new ZstdDecompressCtx()) {
            if (dictionary != null) {
                stream.loadDict(dictionary);
            }
            var socket = http.newWebSocketBuilder().buildAsync(address, inbox).get();
            int code = runStream(socket, inbox, stream);
            socket.abort();
            return code;
        } catch (ExecutionException refused) {
            return LOST;
        }
    }

    private int runStream(WebSocket socket, Inbox inbox, ZstdDecompressCtx stream) throws InterruptedException {
        long intervalMs = 0, beatAtMs = nowMs() + 20_000;
        boolean isAnswered = true, isFirst = true;
        while (true) {
            Object received = inbox.received.poll(Math.max(0, beatAtMs - nowMs()), TimeUnit.MILLISECONDS);
            if (received == null) {
                if (intervalMs == 0 || !isAnswered) return LOST;
                send(socket, 1, seq == 0 ? JSONObject.NULL : seq);
                isAnswered = false;
                beatAtMs = nowMs() + intervalMs;
                continue;
            }
            if (received instanceof Integer code) return code;
            var piece = (byte[]) received;
            // The frame's header declares the window (RFC 8878, section 3.1.1.1.2); zstd-jni allows up to 128 MiB.
            if (isFirst && 10 + ((piece[5] & 0xff) >> 3) > WINDOW_LOG_MAX) {
                throw new IllegalStateException("the stream has a larger window than this client allows");
            }
            isFirst = false;
            var text = inflate(stream, piece);
            var payload = new JSONObject(text);
            switch (payload.getInt("op")) {
                case 10 -> { // HELLO: beat at its interval, the first time after a random part of it
                    intervalMs = payload.getJSONObject("d").getLong("heartbeat_interval");
                    beatAtMs = nowMs() + ThreadLocalRandom.current().nextLong(intervalMs);
                    logIn(socket);
                }
                case 11 -> isAnswered = true;
                case 1 -> send(socket, 1, seq == 0 ? JSONObject.NULL : seq); // the node requests a heartbeat
                case 7 -> { return LOST; } // reconnect, and resume
                case 9 -> { // the session has ended: identify again
                    sessionId = null;
                    seq = 0;
                    return LOST;
                }
                case 0 -> {
                    seq = payload.getLong("s");
                    if (payload.get("t").equals("READY")) {
                        sessionId = (String) payload.query("/d/session_id");
                        resumeUrl = (String) payload.query("/d/resume_gateway_url");
                    }
                    System.out.println(text);
                }
                default -> { }
            }
        }
    }

    private void logIn(WebSocket socket) {
        var d = new JSONObject().put("token", token);
        if (sessionId != null) {
            send(socket, 6, d.put("session_id", sessionId).put("seq", seq));
        } else {
            var properties = new JSONObject().put("os", "linux").put("browser", "example").put("device", "");
            send(socket, 2, d.put("intents", INTENTS).put("properties", properties));
        }
    }

    private static void send(WebSocket socket, int op, Object d) {
        socket.sendText(new JSONObject().put("op", op).put("d", d).toString(), true).exceptionally(lost -> null).join();
    }

    /** One message is one piece of the stream, and inflates to one whole payload. */
    private static String inflate(ZstdDecompressCtx stream, byte[] piece) {
        var in = ByteBuffer.allocateDirect(piece.length).put(piece).flip();
        var out = ByteBuffer.allocateDirect(OUT_BYTES);
        var payload = new ByteArrayOutputStream();
        do {
            stream.decompressDirectByteBufferStream(out.clear(), in);
            var chunk = new byte[out.flip().remaining()];
            out.get(chunk);
            payload.writeBytes(chunk);
            if (payload.size() > MESSAGE_BYTES_MAX) throw new IllegalStateException("a message is too large");
        } while (in.hasRemaining() || out.limit() == OUT_BYTES); // a full buffer may mean that more is waiting
        return payload.toString(StandardCharsets.UTF_8);
    }

    private static long nowMs() {
        return System.nanoTime() / 1_000_000;
    }

    public static void main(String[] arguments) throws Exception {
        var token = System.getenv("TOKEN");
        if (arguments.length != 1 || token == null) {
            System.err.println("usage: TOKEN='…' [DICT=ID] java Client ws://HOST:PORT");
            System.exit(2);
        }
        var client = new Client(arguments[0], token, System.getenv("DICT"));
        for (long delayMs = 1000, seq = 0;; seq = client.seq) {
            int code = client.runConnection();
            System.err.println("client: the connection ended (" + code + ")");
            if (FATAL_CODES.contains(code)) {
                System.err.println("client: the node refuses this client");
                System.exit(1);
            }
            delayMs = client.seq != seq ? 1000 : Math.min(60_000, 2 * delayMs);
            Thread.sleep((long) (delayMs * (0.5 + Math.random())));
        }
    }
}
