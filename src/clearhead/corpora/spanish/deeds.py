"""What people do, by how long it takes: works and pastimes, travels, routines, events, mishaps, projects.

Each `VerbFrame` says which verb, what may follow it, and which times fit.
"""

from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import (
    AT_HOURS,
    GOALS,
    HOME_TO,
    SCHOOL_TO,
    TO,
    TO_TOWNS,
    at,
    hours,
)
from clearhead.corpora.spanish.predicates import (
    ANY,
    DAY,
    LONG,
    ROUTINE,
    SOON,
    VerbFrame,
    a_person,
    a_stranger,
    activity,
    among,
    left_behind,
    objects,
    of_the_body,
    sights,
)
from clearhead.corpora.spanish.verbs import action

OUTSIDE = at("parque playa bosque jardín plaza pueblo")
DESKS = at("biblioteca universidad dormitorio oficina casa escuela parque")
TABLES = at("restaurante casa cocina cafetería jardín hotel")
JOBS = at(
    "oficina hospital tienda banco escuela universidad farmacia panadería hotel fábrica granja restaurante"
    " aeropuerto mercado biblioteca museo"
)
STAGES = at("teatro iglesia plaza escuela restaurante casa")
WATERS = at("piscina mar río")
SPORT = tuple((f"al {one.es[0]}", one.en[0]) for one in n.SPORTS)
MUSIC = tuple((f"{'la' if one.feminine else 'el'} {one.es[0]}", f"the {one.en[0]}") for one in n.INSTRUMENTS)
TONGUES = tuple(n.LANGUAGES.items())
SCIENCES = tuple((one.es[0], one.en[0]) for one in n.SUBJECTS)
LISTENING = (("música", "music"), ("la radio", "the radio"), ("esta canción", "this song"))
RIDES = (("el tren", "the train"), ("el autobús", "the bus"), ("el metro", "the subway"))
AWAITED = (("el tren", "the train"), ("el autobús", "the bus"), ("el taxi", "the taxi"))
MEALS = (("el desayuno", "breakfast"), ("la cena", "dinner"))
MOUNTS = (("en bicicleta", "a bicycle"), ("a caballo", "a horse"))
SPEEDS = (("rápido", "fast"), ("despacio", "slowly"))
TASKS = (("el trabajo", "the work"), ("los deberes", "the homework"))
PRIZES = (
    ("el partido", "the match"), ("la carrera", "the race"), ("el premio", "the prize"),
    ("mucho dinero", "a lot of money"),
)  # fmt: skip
BEDS = at("casa dormitorio hotel jardín")
STAYS = at("casa casa casa hotel oficina escuela")
SIGHTS = n.called("museo iglesia castillo pueblo ciudad isla")
REPAIRABLE = n.VEHICLES + n.called("ordenador cámara reloj móvil juguete")
USEFUL = n.called("ordenador cámara móvil taza plato paraguas") + n.called(
    "bolígrafo lápiz cuaderno mapa cuchara tenedor cuchillo hacha"
)
SEATS = (("", ""), ("en el sofá", "on the sofa"), ("en la cama", "on the bed"))
EARLY = (("temprano", "early"), ("tarde", "late"))
SOMETIMES_EARLY = (("", ""), ("temprano", "early"))
IN_THE_MORNING = EARLY * 2 + hours("cinco seis siete ocho nueve diez")
IN_THE_EVENING = EARLY * 2 + hours("nueve diez once doce")
RETURNS = (HOME_TO, SCHOOL_TO, TO["hotel"], TO["oficina"], TO["ciudad"], TO["pueblo"])

SLICED = n.called("manzana naranja plátano pera limón tomate")
WALKS = (
    ("por el parque", "in the park"), ("por la playa", "on the beach"), ("por la calle", "in the street"),
    ("por el bosque", "in the forest"), ("por la ciudad", "in the city"), ("por el jardín", "in the garden"),
)  # fmt: skip

# Deeds with an object, which take a while, may become a habit, and can be wanted.
WORKS = (
    VerbFrame(action("comer", "eat ate eaten"), objects(n.COUNTED_FOOD, n.EDIBLE)),
    VerbFrame(action("comer", "eat ate eaten"), sights(n.EGGS + n.COUNTED_FOOD)),
    VerbFrame(action("comprar", "buy bought"), sights(n.EGGS * 2 + n.COUNTED_FOOD)),
    VerbFrame(action("beber", "drink drank drunk"), objects((), n.DRINKS)),
    VerbFrame(action("cocinar", "cook"), objects((), n.COOKED)),
    VerbFrame(action("preparar", "prepare"), among(MEALS), ROUTINE),
    VerbFrame(action("cortar", "cut cut"), objects(SLICED, n.called("pan queso jamón")), SOON),
    VerbFrame(action("comprar", "buy bought"), objects(n.GOODS, n.MASSES, n.PAIRS), ANY),
    VerbFrame(action("comprar", "buy bought"), objects(n.COUNTED_FOOD, n.MASSES, n.PAIRS), ANY),
    VerbFrame(action("vender", "sell sold"), objects(n.GOODS + n.COUNTED_FOOD + n.PETS, n.MASSES), ANY),
    VerbFrame(action("leer", "read read"), objects(n.READING + n.MAIL)),
    VerbFrame(action("escribir", "write wrote written"), objects(n.MAIL + n.WRITTEN)),
    VerbFrame(action("enviar", "send sent"), objects(n.MAIL + n.called("regalo foto flor")), ANY),
    VerbFrame(action("lavar", "wash"), objects(n.WASHABLE)),
    VerbFrame(action("limpiar", "clean"), objects(n.CLEANABLE)),
    VerbFrame(action("limpiar", "clean"), objects(n.called("cocina dormitorio baño garaje casa"))),
    VerbFrame(action("pintar", "paint"), objects(n.PAINTABLE), ANY),
    VerbFrame(action("reparar", "repair"), objects(REPAIRABLE), ANY),
    VerbFrame(action("usar", "use"), objects(USEFUL), SOON),
    VerbFrame(action("conducir", "drive drove driven"), objects(n.called("coche camión"))),
    VerbFrame(action("buscar", "look + for"), objects(n.CARRIED), SOON),
    VerbFrame(action("buscar", "look + for"), a_person, SOON),
    VerbFrame(action("ver", "watch"), sights(n.FILMS)),
    VerbFrame(action("ver", "watch"), among((("la televisión", "TV"),))),
    VerbFrame(action("escuchar", "listen + to"), among(LISTENING)),
    VerbFrame(action("escuchar", "listen + to"), a_person),
    VerbFrame(action("tocar", "play"), among(MUSIC)),
    VerbFrame(action("jugar", "play"), among(SPORT)),
    VerbFrame(action("cantar", "sing sang sung"), sights(n.SONGS)),
    VerbFrame(action("estudiar", "study"), among(SCIENCES + TONGUES)),
    VerbFrame(action("aprender", "learn"), among(TONGUES), LONG),
    VerbFrame(action("ayudar", "help"), a_person),
    VerbFrame(action("llamar", "call"), a_person),
    VerbFrame(action("visitar", "visit"), a_person, ANY),
    VerbFrame(action("visitar", "visit"), sights(SIGHTS), ANY),
    VerbFrame(action("visitar", "visit"), among(tuple((n.CITIES | n.COUNTRIES).items())), ANY),
    VerbFrame(action("esperar", "wait + for"), a_person, SOON),
    VerbFrame(action("esperar", "wait + for"), among(AWAITED), SOON),
    VerbFrame(action("cuidar", "take took taken + care of"), a_person),
    VerbFrame(action("hacer", "do did done"), among((("los deberes", "the homework"),)), SOON),
    VerbFrame(action("hacer", "make made"), among((("la cama", "the bed"),)), SOON),
    VerbFrame(action("montar", "ride rode ridden"), among(MOUNTS)),
    VerbFrame(action("tomar", "take took taken"), among(RIDES)),
    VerbFrame(action("abrir", "open"), objects(n.OPENABLE), SOON),
    VerbFrame(action("cerrar", "close"), objects(n.CLOSABLE), SOON),
)  # fmt: skip

# Deeds without an object.
PASTIMES = (
    VerbFrame(action("comer", "eat ate eaten"), activity(TABLES, "mucho bien despacio")),
    VerbFrame(action("cocinar", "cook"), activity(at("casa cocina restaurante hotel"), "bien mal")),
    VerbFrame(action("leer", "read read"), activity(DESKS, "mucho despacio rápido", together=False)),
    VerbFrame(action("conducir", "drive drove driven"), activity((), "bien mal rápido despacio", together=False)),
    VerbFrame(action("jugar", "play"), activity(OUTSIDE + at("casa escuela"))),
    VerbFrame(action("cantar", "sing sang sung"), activity(STAGES, "bien mal")),
    VerbFrame(action("bailar", "dance"), activity(STAGES, "bien mal mucho")),
    VerbFrame(action("entrenar", "train"), activity(at("parque piscina playa escuela"), "mucho")),
    VerbFrame(action("nadar", "swim swam swum"), activity(WATERS, "bien rápido mucho")),
    VerbFrame(action("correr", "run ran run"), activity(OUTSIDE, "rápido mucho")),
    VerbFrame(action("caminar", "walk"), activity(WALKS, "rápido despacio mucho")),
    VerbFrame(action("trabajar", "work"), activity(JOBS + at("casa") * 3, "mucho bien")),
    VerbFrame(action("estudiar", "study"), activity(DESKS, "mucho")),
    VerbFrame(action("hablar", "talk"), activity((), "mucho rápido despacio")),
    VerbFrame(action("dormir", "sleep slept"), activity(BEDS, "bien mal mucho", together=False), ROUTINE),
    VerbFrame(action("descansar", "rest"), activity(at("casa playa jardín parque dormitorio"), together=False)),
    VerbFrame(action("cenar", "have had + dinner"), activity(TABLES), ROUTINE),
    VerbFrame(action("desayunar", "have had + breakfast"), activity(TABLES), ROUTINE),
)  # fmt: skip
ACTIONS = WORKS + PASTIMES
SPEECH = (VerbFrame(action("hablar", "speak spoke spoken"), among(TONGUES)),)

# Deeds of months and years.
PROJECTS = (
    VerbFrame(action("construir", "build built"), sights(n.called("puente castillo iglesia hotel")
                                                     + n.called("casa garaje")), LONG),
)  # fmt: skip

# Going somewhere.
TRAVELS = (
    VerbFrame(action("ir", "go went gone"), among(GOALS)),
    VerbFrame(action("ir", "go went gone"), among(GOALS + TO_TOWNS)),
    VerbFrame(action("ir", "go went gone"), among((("de compras", "shopping"),))),
    VerbFrame(action("volver", "come came come + back"), among(RETURNS + RETURNS + TO_TOWNS)),
    VerbFrame(action("viajar", "travel traveled"), among(TO_TOWNS), LONG),
    VerbFrame(action("venir", "come came come"), among((HOME_TO, SCHOOL_TO, ("a la fiesta", "to the party")))),
    VerbFrame(action("llegar", "arrive"), among(AT_HOURS), ROUTINE),
    VerbFrame(action("salir", "go went gone + out"), activity(()), ROUTINE),
)  # fmt: skip

# Deeds of the day, done to oneself.
ROUTINES = (
    VerbFrame(action("levantar", "get got gotten + up"), among(IN_THE_MORNING), ROUTINE, True),
    VerbFrame(action("acostar", "go went gone + to bed"), among(IN_THE_EVENING), ROUTINE, True),
    VerbFrame(action("despertar", "wake woke woken + up"), among(IN_THE_MORNING), ROUTINE, True),
    VerbFrame(action("duchar", "take took taken + a shower"), among(SOMETIMES_EARLY), ROUTINE, True),
    VerbFrame(action("vestir", "get got gotten + dressed"), among(SPEEDS), ROUTINE, True),
    VerbFrame(action("lavar", "wash"), of_the_body("las manos", "hands", "hands"), ROUTINE, True),
    VerbFrame(action("lavar", "wash"), of_the_body("la cara", "face", "faces"), ROUTINE, True),
    VerbFrame(action("cepillar", "brush"), of_the_body("los dientes", "teeth", "teeth"), ROUTINE, True),
    VerbFrame(action("sentar", "sit sat + down"), among(SEATS), ROUTINE, True),
    VerbFrame(action("quedar", "stay"), among(STAYS), ROUTINE, True),
    VerbFrame(action("relajar", "relax"), among((("", ""), *at("playa jardín casa parque"))), ROUTINE, True),
)  # fmt: skip

WASHING = tuple(frame for frame in ROUTINES if frame.verb.infinitive in ("lavar", "cepillar"))

# Deeds done at once.
EVENTS = (
    VerbFrame(action("encontrar", "find found"), objects(n.CARRIED), ANY),
    VerbFrame(action("ver", "see saw seen"), a_person),
    VerbFrame(action("conocer", "meet met"), a_stranger, LONG),
    VerbFrame(action("invitar", "invite"), a_person),
    VerbFrame(action("recibir", "receive"), objects(n.MAIL + n.called("regalo foto")), ANY),
    VerbFrame(action("ganar", "win won"), among(PRIZES), ANY),
    VerbFrame(action("terminar", "finish"), objects(n.READING), ANY),
    VerbFrame(action("terminar", "finish"), among(TASKS), ANY),
    VerbFrame(action("empezar", "start"), objects(n.READING), ANY),
    VerbFrame(action("llegar", "arrive"), among((("", ""), *EARLY))),
    VerbFrame(action("pagar", "pay paid + for"), objects(n.CLOTHES + n.VEHICLES + n.COUNTED_FOOD)),
    VerbFrame(action("pedir", "order"), objects(n.SNACKS, n.DRINKS + n.DISHES)),
    VerbFrame(action("traer", "bring brought"), objects(n.CARRIED + n.SNACKS, n.DRINKS)),
    VerbFrame(action("dejar", "leave left"), left_behind),
    VerbFrame(action("casar", "get got gotten + married"), among((("", ""),)), LONG, True),
    VerbFrame(action("mudar", "move"), among(TO_TOWNS), LONG, True),
)  # fmt: skip

SIGHTINGS = (VerbFrame(action("ver", "see saw seen"), sights(n.BEASTS), ANY),)

# Deeds that nobody plans.
MISHAPS = (
    VerbFrame(action("perder", "lose lost"), objects(n.CARRIED), ANY),
    VerbFrame(action("romper", "break broke broken"), objects(n.BREAKABLE), ANY),
    VerbFrame(action("olvidar", "forget forgot forgotten"), objects(n.CARRIED), ANY),
    VerbFrame(action("dormir", "fall fell fallen + asleep"), among(SEATS), DAY, True),
)  # fmt: skip

SKILLS = (
    ("nadar", "swim"), ("cocinar", "cook"), ("bailar", "dance"), ("conducir", "drive"), ("cantar", "sing"),
    ("leer", "read"), ("escribir", "write"), ("montar en bicicleta", "ride a bicycle"),
    ("montar a caballo", "ride a horse"), ("pintar", "paint"),
    *((f"tocar {es}", f"play {en}") for es, en in MUSIC),
    *((f"jugar {es}", f"play {en}") for es, en in SPORT),
    *((f"hablar {es}", f"speak {en}") for es, en in TONGUES),
)  # fmt: skip
