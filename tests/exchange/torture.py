"""Two hundred lines that tokenizers stumble over: scripts, marks, emoji, spaces, numbers, quotes, code, and chance."""

import random
import unicodedata

SCRIPTS = """\
The quick brown fox jumps over the lazy dog.
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.
Portez ce vieux whisky au juge blond qui fume; l'œuvre, ça, où?
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia. ¿Y tú? ¡Ñandú!
Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ὀδυσσεύς, ὦ ξεῖν᾽.
عيد مبارك، كيف حالك؟ ١٢٣٤٥ ۱۲۳ ـ نَصٌّ مُشَكَّل
דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם
いろはにほへと ちりぬるを、カタカナ「引用」ー長音。ﾊﾝｶｸ
我能吞下玻璃而不伤身体。繁體中文，㐀㐁𠀀𠀁。
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 한글
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३
জল পড়ে পাতা নড়ে। தமிழ் எழுத்து తెలుగు లిపి ಕನ್ನಡ മലയാളം
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓ ລາວ ភាសាខ្មែរ ၁၂၃ မြန်မာ
ქართული ანბანი Հայերեն այբուբեն ᏣᎳᎩ ᚠᚢᚦᚨᚱᚲ አማርኛ ፩፪፫ བོད་ཡིག
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟏𝟐𝟑 𝒷𝓁𝒶 ℌ ℕ Ⅷ ⅷ ½ ¾ ² ₃ ① ⑳ ㊙ ﬁ ﬂ ſ
👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇪🇸 1️⃣ #️⃣ ☺️ ☹︎ 🫠 🧑🏿‍🚀 🙂🙃🙂
naïve café résumé Ångström Å ñ ü
ǅ ǈ ǋ İstanbul ISPARTA ısı ẞ ß ŉ ĳ Ĳ
It's I'm you're we've he'll she'd don't IT'S I'M YOU'RE WE'VE HE'LL SHE'D DON'T 'tis rock'n'roll l’été ’s ‘t
1 12 123 1234 12345 123456 1,234.56 1.234,56 1e-10 0x1F 3.14159 50% $9.99 €5 ¥100 1st 2nd 3/4 12:34:56
a1b22c333 x₁² H₂O E=mc² π≈3.14 ∑∫∂√∞≠≤≥ ←→↑↓ ∀x∈ℝ ⟨a|b⟩
def f(x: int) -> str:  return f"{x!r}\\n"  # comment; a_b-c.d/e?f=g&h=i
<s></s><pad><mask><sep><unk> <|endoftext|> <|im_start|>user [CLS] [SEP] <user> <assistant>
{"key": [1, 2.5, null, true], "k\\u00e9": "\\"v\\""}
if (a<b&&c>=d||!e) {x++; y--; z<<=2;} // ok /* no */ #pragma ~`@^|\\
https://example.org/a%20b?c=d#e user+tag@example.co.uk C:\\Windows\\System32 ~/x.y
!!!??? ... …… -- --- —— ~~~ *** ((())) [[[]]] <<<>>> \"\"\" ''' ``` „“”‚‘’«»‹›
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
supercalifragilisticexpialidocious Donaudampfschifffahrtsgesellschaftskapitän
"""
SPACES = [
    " leading", "trailing ", "  two  spaces  ", "   three   ", "a    b     c      d", "\ttab\t\ttabs\t", " \t \t mixed",
    "no\u00a0break\u00a0\u00a0space", "thin\u2009hair\u200afigure\u2007", "em\u2003en\u2002",
    "ideographic\u3000space　",
    "zero\u200bwidth\u200bspace", "join\u200der\u200cnon", "bom\ufeff inside", "\ufeffat the start", "soft\u00adhyphen",
    "line\u2028separator\u2029paragraph", "next\u0085line", "vertical\x0btab\x0cfeed", "nul\x00bell\x07esc\x1b[0m\x7f",
    "carriage\rreturn", "crlf\r\nline\r\n\r\n", "a\nb\n\nc\n\n\nd\n", "\n", "\n\n\n", " ", "  ", "\t", " \n ", "\n  x",
    "x  \n  y", "rtl\u202eoverride\u202c", "\u2066iso\u2069", "e\u0301e\u0301\u0301 decomposed", "\u0301alone",
    "क\u094dष",
    "ﷺ ﷽", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞", "\ue000private\uf8ff", "\ufffd\ufffc",
    "\U0001f600" * 9, "\U000e0041tag\U000e007f", "variation\ufe0f\ufe0e", "½½½", "٣٫٥", "Ⅻ.", "x" * 300,
    " " * 70, "9" * 40,
]  # fmt: skip


def lines(count: int = 200) -> list[str]:
    """The lines by hand, then some of characters by chance, whatever their script."""
    chance = random.Random(5)
    fixed = [line for line in SCRIPTS.splitlines() + SPACES if line]
    drawn = ["".join(drawn_character(chance) for _ in range(chance.randint(1, 40))) for _ in range(count)]
    return [*fixed, *drawn][:count]


def drawn_character(chance: random.Random) -> str:
    """A space, a letter, or any assigned character of the older planes."""
    if chance.random() < 0.25:
        return chance.choice(" \n\t'sS1aé")
    while True:
        character = chr(
            chance.choice([chance.randrange(0x3000), chance.randrange(0xFFFF), chance.randrange(0x1F700)])
        )
        if unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs", "Co"):
            return character
