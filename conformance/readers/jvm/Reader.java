import com.github.luben.zstd.ZstdDecompressCtx;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;

/** Decompresses one stream after the other by zstd-jni. The pipes speak what ../node/reader.js says. */
public final class Reader {
    private static final int OUT_BYTES = 1 << 17;

    private final ZstdDecompressCtx stream = new ZstdDecompressCtx();
    private final ByteBuffer out = ByteBuffer.allocateDirect(OUT_BYTES);
    private final ByteArrayOutputStream message = new ByteArrayOutputStream();

    private void push(byte[] piece) {
        ByteBuffer in = ByteBuffer.allocateDirect(piece.length).put(piece).flip();
        do {
            out.clear();
            stream.decompressDirectByteBufferStream(out, in);
            byte[] chunk = new byte[out.flip().remaining()];
            out.get(chunk);
            message.writeBytes(chunk);
            // A full buffer may mean that more is waiting.
        } while (in.hasRemaining() || out.limit() == OUT_BYTES);
    }

    public static void main(String[] arguments) throws Exception {
        var source = new DataInputStream(new BufferedInputStream(System.in));
        var sink = new DataOutputStream(new BufferedOutputStream(System.out));
        var reader = new Reader();
        for (int kind = source.read(); kind >= 0; kind = source.read()) {
            if (kind == 's') {
                reader.stream.reset();
                reader.message.reset();
            } else if (kind == 'p') {
                reader.push(source.readNBytes(source.readInt()));
            } else {
                sink.writeInt(reader.message.size());
                reader.message.writeTo(sink);
                sink.flush();
                reader.message.reset();
            }
        }
    }
}
