// The page of a file: its table, if it is one.
import { watch } from "./file-frame.js";

watch(document, Math.max(420, innerHeight - 340));
