/** A table that an agent can only look into with its tool. */

/**
 * Returns the code of a question: one of four.
 *
 * @param {string} question
 */
export const codeOf = (question) =>
  String(Array.from(question.trim()).reduce((sum, each) => sum * 31 + each.charCodeAt(0), 7) % 4)
