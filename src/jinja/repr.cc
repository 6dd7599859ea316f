#include "jinja/repr.h"

#include <cstdio>

#include "jinja/numbers.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

void append_escape(std::string& out, char32_t c) {
  char buffer[16];
  const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  out.append(buffer, static_cast<std::size_t>(
                         std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(c))));
}

// Writes reprs into one string; the whole string is marked as user text if any part of it is.
class ReprWriter {
 public:
  explicit ReprWriter(Render& render) : render_(render) {}
  std::string out;

  void write(const Value& value) {
    render_.step();
    if (++depth_ > 2 * kMaxDepth) fail(ErrorKind::limit, "a value is nested too deeply to print");
    write_kind(value);
    render_.check_size(out.size());
    --depth_;
  }

 private:
  void write_kind(const Value& value) {
    switch (value.kind()) {
      case Kind::string: {
        render_.work(value.text().bytes.size());
        const std::string quoted = quote(value.text().bytes, false);
        out += value.text().markup ? "Markup(" + quoted + ")" : quoted;
        return;
      }
      case Kind::missing:
      case Kind::undefined:
        out += "Undefined";
        return;
      case Kind::none:
        out += "None";
        return;
      case Kind::boolean:
        out += value.as_bool() ? "True" : "False";
        return;
      case Kind::integer:
        out += std::to_string(value.as_integer());
        return;
      case Kind::big_integer:
        out += value.as<BigInteger>().digits;
        return;
      case Kind::real:
        out += format_real(value.as_real());
        return;
      case Kind::list:
        return write_items("[", value.items(), "]");
      case Kind::tuple:
        return write_items("(", value.items(), value.items().size() == 1 ? ",)" : ")");
      case Kind::dict:
        return write_dict(value.entries());
      case Kind::range:
        return write_range(value.as<Range>());
      case Kind::view:
        return write_view(value.as<View>());
      case Kind::name_space:
        out += "<Namespace ";
        write_dict(value.as<Namespace>().attributes);
        out += ">";
        return;
      case Kind::macro: {
        const std::string& name = value.as<Macro>().code->name;
        out += "<Macro " + (name.empty() ? "anonymous" : quote(name, false)) + ">";
        return;
      }
      case Kind::loop: {
        auto& loop = value.as<LoopContext>();
        out += "<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(loop.count(render_)) +
               ">";
        return;
      }
      case Kind::method:
        out += "<built-in method " + std::string(value.as<Method>().name) + " of " +
               std::string(type_name(value.as<Method>().self)) + " object>";
        return;
      case Kind::function:
        out += "<function " + std::string(value.as<Function>().name) + ">";
        return;
      default:
        out += "<" + std::string(type_name(value)) + " object>";
        return;
    }
  }

  void write_items(const char* open, const std::vector<Value>& items, const char* close) {
    out += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += ", ";
      write(items[i]);
    }
    out += close;
  }

  void write_dict(const Dict& dict) {
    out += "{";
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) out += ", ";
      first = false;
      write(key);
      out += ": ";
      write(value);
    }
    out += "}";
  }

  void write_range(const Range& range) {
    out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
    if (range.step != 1) out += ", " + std::to_string(range.step);
    out += ")";
  }

  void write_view(const View& view) {
    constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
    out += kNames[static_cast<int>(view.part)];
    std::vector<Value> items;
    for (const auto& [key, value] : view.dict.entries().entries) {
      items.push_back(view.part == View::Part::keys     ? key
                      : view.part == View::Part::values ? value
                                                        : Value::tuple({key, value}));
    }
    write_items("([", items, "])");
  }

  Render& render_;
  int depth_ = 0;
};

bool prints_user_text(const Value& value) {
  if (value.is(Kind::view)) return value.as<View>().dict.holds_user_text();
  return value.holds_user_text() || value.is(Kind::name_space);
}

}  // namespace

std::string quote(std::string_view text, bool ascii_only) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char delimiter = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, delimiter);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_char(text, at);
    if (c == static_cast<char32_t>(delimiter) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (!is_printable(c) || (ascii_only && c >= 0x80)) {
      append_escape(out, c);
    } else {
      out.append(text, begin, at - begin);
    }
  }
  out += delimiter;
  return out;
}

void append_repr(Render& render, StringBuilder& out, const Value& value) {
  ReprWriter writer(render);
  writer.write(value);
  out.append(writer.out, prints_user_text(value));
}

void append_string(Render& render, StringBuilder& out, const Value& value) {
  if (value.is_string()) {
    render.work(value.text().bytes.size());
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(render, out, value);
  }
}

Value to_string(Render& render, const Value& value) {
  if (value.is_string() && !value.text().markup) return value;
  StringBuilder out;
  append_string(render, out, value);
  return out.take(render);
}

Value to_soft_string(Render& render, const Value& value) {
  return value.is_string() ? value : to_string(render, value);
}

}  // namespace pagoda::jinja
