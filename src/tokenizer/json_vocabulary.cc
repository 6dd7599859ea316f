#include "tokenizer/json_vocabulary.h"

#include "base/json_cursor.h"
#include "base/strings.h"

namespace pagoda {

Status wrong_json(std::string_view what) { return corrupt_data(concat("tokenizer.json: ", what)); }

Status read_vocabulary(std::string_view text, Vocabulary& vocabulary) {
  vocabulary.reserve(text.size() / 16, text.size() / 2);
  JsonCursor cursor(text);
  return cursor.read_object([&](const std::string& token) {
    std::int64_t id = 0;
    PAGODA_RETURN_IF_ERROR(cursor.read_integer(id));
    if (id < 0 || id > Vocabulary::kMaxId || !vocabulary.add(token, static_cast<TokenId>(id)))
      return wrong_json(concat("id ", id, " is out of bounds"));
    return ok_status();
  });
}

Status read_scored_vocabulary(std::string_view text, Vocabulary& vocabulary, std::vector<double>& scores) {
  vocabulary.reserve(text.size() / 24, text.size() / 2);
  JsonCursor cursor(text);
  std::string token;
  return cursor.read_array([&]() {
    double score = 0;
    int position = 0;
    PAGODA_RETURN_IF_ERROR(cursor.read_array([&]() {
      if (position > 1) return wrong_json("an entry of the vocabulary is no [token, score]");
      return position++ == 0 ? cursor.read_string(token) : cursor.read_number(score);
    }));
    if (position != 2) return wrong_json("an entry of the vocabulary is no [token, score]");
    if (!vocabulary.add(token, static_cast<TokenId>(scores.size())))
      return wrong_json("the vocabulary is too large");
    scores.push_back(score);
    return ok_status();
  });
}

bool split_merge(std::string_view line, MergeList& merges) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return false;
  merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  return true;
}

Status read_merges(std::string_view text, std::string& arena, MergeList& merges) {
  arena.reserve(text.size());
  merges.reserve(text.size() / 12);
  JsonCursor cursor(text);
  std::string part;
  const auto keep = [&]() {
    arena += part;
    return std::string_view(arena).substr(arena.size() - part.size());
  };
  return cursor.read_array([&]() {
    if (cursor.peek() == '"') {  // "left right"
      PAGODA_RETURN_IF_ERROR(cursor.read_string(part));
      if (part.starts_with("#version")) return ok_status();
      if (!split_merge(keep(), merges))
        return wrong_json(concat("merge ", merges.size(), " is not two tokens"));
      return ok_status();
    }
    std::string_view pair[2];
    int position = 0;
    PAGODA_RETURN_IF_ERROR(cursor.read_array([&]() {
      if (position > 1) return wrong_json(concat("merge ", merges.size(), " is not two tokens"));
      PAGODA_RETURN_IF_ERROR(cursor.read_string(part));
      pair[position++] = keep();
      return ok_status();
    }));
    if (position != 2) return wrong_json(concat("merge ", merges.size(), " is not two tokens"));
    merges.emplace_back(pair[0], pair[1]);
    return ok_status();
  });
}

}  // namespace pagoda
