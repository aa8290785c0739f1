# What follows is Airlock's: behind the fonts that a text asks for come the system's fonts
# of other scripts, as in a browser. They are opened for every combination of fonts in a
# figure, so only once there is a text that wants them.
def _add_scripts(families):
    import os
    from matplotlib import font_manager

    manager = font_manager.FontManager
    if not hasattr(manager, "_find_fonts_by_props"):
        return  # before 3.6 a text has one font
    find, set_text = manager._find_fonts_by_props, Text.set_text
    weights = font_manager.weight_dict
    wanted = []

    @functools.lru_cache
    def fonts_of_scripts(manager, bold):
        nearest = {}
        for font in manager.ttflist:
            if font.name in families and font.style == font.variant == "normal":
                distance = abs(weights.get(font.weight, font.weight) - (700 if bold else 400))
                if distance < nearest.get(font.name, (1000,))[0]:
                    nearest[font.name] = distance, font
        found = {}  # by file: a collection has a family of one face for each language
        for name in families:
            if name in nearest:
                font = nearest[name][1]
                path = os.path.realpath(font.fname)
                if os.path.isfile(path):
                    found.setdefault(path, font_manager.FontPath(path, font.index) if hasattr(font, "index") else path)
        return list(found.values())

    @functools.wraps(find)
    def find_with_scripts(self, prop, fontext="ttf", *arguments, **options):
        paths = find(self, prop, fontext, *arguments, **options)
        if wanted and fontext != "afm":
            weight = FontProperties._from_any(prop).get_weight()
            others = fonts_of_scripts(self, weights.get(weight, weight) >= 600)
            paths += [path for path in others if path not in paths]
        return paths

    @functools.wraps(set_text)
    def set_any_text(self, s):
        text = "" if s is None else str(s)  # as the method itself does
        # DejaVu has Latin, Greek, Cyrillic, Arabic, Hebrew, and the signs from dashes to sums.
        if not wanted and not text.isascii() and any(c >= "\u0900" and not "\u2000" <= c < "\u2300" for c in text):
            wanted.append(text)
        return set_text(self, text)

    manager._find_fonts_by_props, Text.set_text = find_with_scripts, set_any_text


_add_scripts((
    "DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari", "Noto Sans Bengali",
    "Noto Sans Gurmukhi", "Noto Sans Gujarati", "Noto Sans Oriya", "Noto Sans Tamil", "Noto Sans Telugu",
    "Noto Sans Kannada", "Noto Sans Malayalam", "Noto Sans Sinhala", "Noto Sans Thai", "Noto Sans Khmer",
    "Noto Sans Myanmar", "Noto Sans Ethiopic", "Symbola",
))
