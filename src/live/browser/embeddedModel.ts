/** Folder of the built-in model in the browser's files. The page that trains it puts it there. */
export const EMBEDDED_MODEL = 'models/word-problems'
