// Kafka's own word on records of __consumer_offsets. Reads a line for each: "bytes KEY VALUE" (hex,
// "-" for no value) or "json TYPE KEY VERSION VALUE" (base64 of JSON); answers each with a line of
// JSON: the key and the value as JSON and as hex, and what the tools' formatters print of it.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.tools.consumer.CoordinatorRecordMessageFormatter;
import org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter;
import org.apache.kafka.tools.consumer.OffsetsMessageFormatter;

public class GroupRecords {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            CoordinatorRecord record = words[0].equals("bytes") ? fromBytes(words) : fromJson(words);
            out.println(JSON.writeValueAsString(answer(record)));
        }
    }

    static CoordinatorRecord fromBytes(String[] words) {
        ByteBuffer value = words[2].equals("-") ? null : ByteBuffer.wrap(HEX.parseHex(words[2]));
        return SERDE.deserialize(ByteBuffer.wrap(HEX.parseHex(words[1])), value);
    }

    static CoordinatorRecord fromJson(String[] words) throws Exception {
        short type = Short.parseShort(words[1]);
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(json(words[2]), type);
        JsonNode value = json(words[4]);
        if (value.isNull()) {
            return CoordinatorRecord.tombstone(key);
        }
        short version = Short.parseShort(words[3]);
        return CoordinatorRecord.record(key, new ApiMessageAndVersion(
            CoordinatorRecordJsonConverters.readRecordValueFromJson(value, type, version), version));
    }

    static JsonNode json(String encoded) throws Exception {
        return JSON.readTree(Base64.getDecoder().decode(encoded));
    }

    static ObjectNode answer(CoordinatorRecord record) {
        ObjectNode answer = JSON.createObjectNode();
        byte[] key = SERDE.serializeKey(record);
        byte[] value = SERDE.serializeValue(record);
        answer.put("type", record.key().apiKey());
        answer.put("keyHex", HEX.formatHex(key));
        answer.put("valueHex", value == null ? "-" : HEX.formatHex(value));
        answer.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (record.value() != null) {
            short version = record.value().version();
            answer.put("version", version);
            answer.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                record.value().message(), version));
        }
        answer.put("offsetsFormatter", formatted(new OffsetsMessageFormatter(), key, value));
        answer.put("groupFormatter", formatted(new GroupMetadataMessageFormatter(), key, value));
        return answer;
    }

    static String formatted(CoordinatorRecordMessageFormatter formatter, byte[] key, byte[] value) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        formatter.writeTo(
            new ConsumerRecord<>("__consumer_offsets", 0, 0L, key, value), new PrintStream(printed));
        return printed.toString(StandardCharsets.UTF_8);
    }
}
