#include "jinja/json_dump.h"

#include <cmath>
#include <cstdio>

#include "jinja/numbers.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Render& render, const JsonOptions& options) : render_(render), options_(options) {}
  std::string out;

  void write(const Value& value, int level) {
    render_.step();
    switch (value.kind()) {
      case Kind::none:
        out += "null";
        break;
      case Kind::boolean:
        out += value.as_bool() ? "true" : "false";
        break;
      case Kind::integer:
        out += std::to_string(value.as_integer());
        break;
      case Kind::big_integer:
        out += value.as<BigInteger>().digits;
        break;
      case Kind::real:
        out += real(value.as_real());
        break;
      case Kind::string:
        write_string(value.text().bytes);
        break;
      case Kind::list:
      case Kind::tuple:
        write_list(value.items(), level);
        break;
      case Kind::dict:
        write_dict(value.entries(), level);
        break;
      default:
        type_error("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
    render_.check_size(out.size());
  }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return format_real(value);
  }

  void write_unit(char32_t unit) {
    char buffer[8];
    out.append(buffer, static_cast<std::size_t>(
                           std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(unit))));
  }

  void write_string(std::string_view text) {
    render_.work(text.size());
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const char32_t c = next_char(text, at);
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\b':
          out += "\\b";
          break;
        case '\f':
          out += "\\f";
          break;
        default:
          if (c < 0x20 || (options_.ensure_ascii && c > 0x7E && c < 0x10000 && c != 0x7F)) {
            write_unit(c);
          } else if (options_.ensure_ascii && c >= 0x10000) {
            write_unit(0xD800 + ((c - 0x10000) >> 10));
            write_unit(0xDC00 + ((c - 0x10000) & 0x3FF));
          } else {
            out.append(text, begin, at - begin);
          }
      }
    }
    out += '"';
  }

  void line(int level) {
    if (!options_.indent) return;
    render_.check_size(out.size() + static_cast<std::size_t>(level) * options_.indent->size());
    out += '\n';
    for (int i = 0; i < level; ++i) out += *options_.indent;
  }

  void write_list(const std::vector<Value>& items, int level) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += options_.item_separator;
      line(level + 1);
      write(items[i], level + 1);
    }
    line(level);
    out += ']';
  }

  std::string key_text(const Value& key) const {
    switch (key.kind()) {
      case Kind::string:
        return key.text().bytes;
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as_bool() ? "true" : "false";
      case Kind::integer:
        return std::to_string(key.as_integer());
      case Kind::real:
        return real(key.as_real());
      default:
        type_error("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out += "{}";
      return;
    }
    std::vector<Value> order, keys;
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      order.push_back(Value::integer(static_cast<std::int64_t>(i)));
      keys.push_back(dict.entries[i].first);
    }
    if (options_.sort_keys) sort_by_keys(render_, order, std::move(keys), false);
    out += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto& [key, value] = dict.entries[static_cast<std::size_t>(order[i].as_integer())];
      if (i != 0) out += options_.item_separator;
      line(level + 1);
      write_string(key_text(key));
      out += options_.key_separator;
      write(value, level + 1);
    }
    line(level);
    out += '}';
  }

  Render& render_;
  const JsonOptions& options_;
};

}  // namespace

Value dump_json(Render& render, const Value& value, const JsonOptions& options) {
  JsonWriter writer(render, options);
  writer.write(value, 0);
  render.charge(writer.out.size());
  return Value::string(std::move(writer.out), value.holds_user_text());
}

}  // namespace pagoda::jinja
