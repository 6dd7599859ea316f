#include "api/content_parts.h"

#include <algorithm>

#include "api/tool_fields.h"
#include "base/base64.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;

enum class PartForm : std::uint8_t { text, thought, document, search_result, file, unreadable, media };

struct PartType {
  std::string_view name;
  PartForm form;
  std::string_view field = {};  // field that holds the text; for media, their name
};

constexpr PartType kParts[] = {
    {"text", PartForm::text, "text"},
    {"input_text", PartForm::text, "text"},
    {"output_text", PartForm::text, "text"},
    {"summary_text", PartForm::text, "text"},
    {"reasoning_text", PartForm::text, "text"},
    {"refusal", PartForm::text, "refusal"},
    {"tool_reference", PartForm::text, "tool_name"},
    {"thinking", PartForm::thought, "thinking"},
    {"reasoning", PartForm::thought, "text"},
    {"compaction", PartForm::text, "content"},
    {"document", PartForm::document},
    {"search_result", PartForm::search_result},
    {"redacted_thinking", PartForm::unreadable},
    {"encrypted_content", PartForm::unreadable},
    {"container_upload", PartForm::unreadable},
    {"image", PartForm::media, "image"},
    {"image_url", PartForm::media, "image"},
    {"image_file", PartForm::media, "image"},
    {"input_image", PartForm::media, "image"},
    {"computer_screenshot", PartForm::media, "screenshot"},
    {"audio", PartForm::media, "audio"},
    {"audio_url", PartForm::media, "audio"},
    {"input_audio", PartForm::media, "audio"},
    {"video", PartForm::media, "video"},
    {"video_url", PartForm::media, "video"},
    {"file", PartForm::file, "file"},
    {"input_file", PartForm::file, "file"},
};

std::string joined(const std::vector<ContentPart>& parts) { return Content{.parts = parts}.joined(); }

// The text of a field that is a string or a list of parts.
std::string text_of(FieldReader& fields, std::string_view name, Warnings& warnings, Media media) {
  const json::value* value = fields.raw(name, {"string", "array"});
  if (value == nullptr || value->is_string()) return fields.string(name, kAnyLength).value_or("");
  const json::array* parts = fields.array(name, kMaxMessages);
  return parts == nullptr ? std::string()
                          : joined(read_parts(fields, name, *parts, warnings, nullptr, media));
}

// Joins texts as lines, skipping empty ones.
std::string lines(std::initializer_list<std::string_view> texts) {
  std::string out;
  for (const std::string_view text : texts)
    if (!text.empty()) out.append(out.empty() ? "" : "\n").append(text);
  return out;
}

// The text of a file with media type `type`, given as base64 or as a data URL (whose own type then counts);
// nullopt if the file is not text.
std::optional<std::string> text_of_file(std::string_view data, std::string_view type) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (data.empty()) return std::nullopt;
  if (data.starts_with("data:")) {
    const std::size_t comma = data.find(',');
    type = data.substr(5, std::min(comma, data.size()) - 5);
    if (comma == std::string_view::npos || !type.ends_with(";base64")) return std::nullopt;
    data.remove_prefix(comma + 1);
  }
  for (const std::string_view other : {"image/", "audio/", "video/", "font/", "application/pdf"})
    if (type.starts_with(other)) return std::nullopt;
  std::optional<std::string> bytes = decode_base64(data);
  if (!bytes || bytes->starts_with("%PDF-") || !is_valid_utf8(*bytes)) return std::nullopt;
  const auto binary = [](char c) {
    return c >= 0 && c < ' ' && std::string_view("\t\n\r\f").find(c) == std::string_view::npos;
  };
  if (std::ranges::any_of(*bytes, binary)) return std::nullopt;
  if (bytes->starts_with(kByteOrderMark)) bytes->erase(0, kByteOrderMark.size());
  return bytes;
}

std::optional<PartText> read_document(FieldReader& part, Warnings& warnings, Media media) {
  const std::string title = part.string("title", kAnyLength).value_or("");
  const std::string context = part.string("context", kAnyLength).value_or("");
  const json::object* source = part.object("source");
  if (part.ok() && source == nullptr) part.fail("source", "is required");
  if (!part.ok()) return std::nullopt;
  FieldReader reader(*source, part.path_of("source"));
  const std::string type = reader.string("type", 64).value_or("");
  std::string text;
  if (type == "text")
    text = reader.string("data", kAnyLength).value_or("");
  else if (type == "content")
    text = text_of(reader, "content", warnings, media);
  else if (std::optional<std::string> file;
           type == "base64" && (file = text_of_file(reader.string("data", kAnyLength).value_or(""),
                                                    reader.string("media_type", 256).value_or(""))))
    text = *std::move(file);
  else if (reader.ok() && media == Media::named)
    return PartText{.text = media_note(part.path_of("type"), "document", warnings)};
  else if (reader.ok())
    reader.fail("type",
                concat("is '", name_or_mark(type), "' of a document, but this model supports text only"));
  if (!reader.ok()) part.fail(reader.status());
  if (!part.ok()) return std::nullopt;
  return PartText{.text = lines({title, context, text})};
}

std::optional<PartText> read_search_result(FieldReader& part, Warnings& warnings, Media media) {
  const std::string title = part.string("title", kAnyLength).value_or("");
  const std::string source = part.string("source", kAnyLength).value_or("");
  const std::string text = text_of(part, "content", warnings, media);
  if (!part.ok()) return std::nullopt;
  return PartText{.text = lines({title, source, text})};
}

// Handles a part as media, by its type alone.
std::optional<PartText> read_media(FieldReader& part, const PartType& type, Warnings& warnings, Media media) {
  if (media == Media::named) return PartText{.text = media_note(part.path_of("type"), type.field, warnings)};
  part.fail("type", concat("is '", type.name, "', but this model supports text only"));
  return std::nullopt;
}

// The file's fields are in the part itself (Responses) or in its object "file" (chat).
std::optional<PartText> read_file(FieldReader& part, const PartType& type, Warnings& warnings, Media media) {
  const json::object* inside = part.whole().contains("file") ? part.object("file") : nullptr;
  FieldReader file = inside == nullptr ? part : FieldReader(*inside, part.path_of("file"));
  const std::string name = file.string("filename", kAnyLength).value_or("");
  const std::optional<std::string> data = file.string("file_data", kAnyLength);
  if (!file.ok()) part.fail(file.status());
  if (!part.ok()) return std::nullopt;
  const std::optional<std::string> text = data ? text_of_file(*data, "") : std::nullopt;
  if (!text) return read_media(part, type, warnings, media);
  return PartText{.text = lines({name, *text})};
}

std::optional<PartText> read_field(FieldReader& part, const PartType& type) {
  std::optional<std::string> text = part.string(type.field, kAnyLength);
  if (part.ok() && !text) part.fail(type.field, "is required");
  if (!part.ok()) return std::nullopt;
  return PartText{.text = *std::move(text), .thought = type.form == PartForm::thought};
}

}  // namespace

std::string media_note(std::string_view path, std::string_view what, Warnings& warnings) {
  warnings.add(path, concat("this model supports text only; a note replaces the ", what));
  return concat("[", what, " left out: this model supports text only]");
}

std::optional<PartText> read_part(FieldReader& part, Warnings& warnings, Media media) {
  const std::string name = part.string("type", 128).value_or(part.has("text") ? "text" : "");
  if (part.ok() && name.empty()) part.fail("type", "is required");
  if (!part.ok()) return std::nullopt;
  const auto* type = std::ranges::find(kParts, name, &PartType::name);
  if (type == std::end(kParts)) {
    part.fail("type", concat("is '", name_or_mark(name), "', which is not a known content part"));
    return std::nullopt;
  }
  switch (type->form) {
    case PartForm::text:
    case PartForm::thought:
      return read_field(part, *type);
    case PartForm::document:
      return read_document(part, warnings, media);
    case PartForm::search_result:
      return read_search_result(part, warnings, media);
    case PartForm::unreadable:
      warnings.add(part.path_of("type"),
                   concat("a part of the type '", name, "' cannot be read here and is left out"));
      return std::nullopt;
    case PartForm::file:
      return read_file(part, *type, warnings, media);
    case PartForm::media:
      return read_media(part, *type, warnings, media);
  }
  return std::nullopt;
}

std::vector<ContentPart> read_parts(FieldReader& owner, std::string_view name, const json::array& parts,
                                    Warnings& warnings, std::string* thoughts, Media media) {
  std::vector<ContentPart> out;
  if (parts.size() > kMaxMessages) owner.fail(name, concat("must have at most ", kMaxMessages, " parts"));
  for (std::size_t i = 0; i < parts.size() && owner.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    if (const json::string* text = parts[i].if_string()) {
      out.push_back({.text = std::string(*text)});
      continue;
    }
    const json::object* part = parts[i].if_object();
    if (part == nullptr) {
      owner.fail(path, "must be an object with a type, or a text");
      break;
    }
    FieldReader reader(*part, owner.path_of(path));
    std::optional<PartText> read = read_part(reader, warnings, media);
    if (!reader.ok()) owner.fail(reader.status());
    if (!read) continue;
    if (read->thought && thoughts != nullptr)
      thoughts->append(read->text);
    else
      out.push_back({.text = std::move(read->text)});
  }
  return out;
}

}  // namespace pagoda
