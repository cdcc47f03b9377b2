// The views in the order of the lecture, and of their keys.

import * as text from "./views/text.js";
import * as map from "./views/map.js";
import * as embeddings from "./views/embeddings.js";
import * as attention from "./views/attention.js";
import * as heads from "./views/heads.js";
import * as links from "./views/links.js";
import * as residual from "./views/residual.js";
import * as next from "./views/next.js";
import * as generation from "./views/generation.js";
import * as translation from "./views/translation.js";
import * as classifier from "./views/classifier.js";
import * as attribution from "./views/attribution.js";
import * as contrast from "./views/contrast.js";

export const VIEWS = { text, map, embeddings, attention, heads, links, residual, next, generation, translation, classifier, attribution, contrast };
export const KEYS = "1234567890-[]"; // of the views, in order
