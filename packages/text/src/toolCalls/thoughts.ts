/** Thoughts: the text that a model writes before its answer, between tags. */

/** The tags around a model's thoughts. */
export type ThoughtTags = readonly [open: string, close: string]

/** The tags of most models that think, and of this package's prompts. */
export const THINK_TAGS: ThoughtTags = ['<think>', '</think>']

const KNOWN_TAGS: readonly ThoughtTags[] = [
  THINK_TAGS,
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['[THINK]', '[/THINK]'],
  ['<seed:think>', '</seed:think>'],
  ['◁think▷', '◁/think▷'],
  ['<thought>', '</thought>'],
]

/**
 * Returns the tags of thoughts that a chat template writes or looks for, or 'none'.
 *
 * @example
 * thoughtTagsOf("{{ content.split('</think>')[-1] }}") // ['<think>', '</think>']
 */
export const thoughtTagsOf = (templateSource: string): ThoughtTags | 'none' =>
  KNOWN_TAGS.find(([, close]) => templateSource.includes(close)) ?? 'none'

/**
 * A setting for thoughts. Tags: what is between them is reasoning, in which no calls are read.
 * `searched`: thoughts are text, and calls in them count. `none`: the model has no tags of its own.
 */
export type ThoughtSetting = ThoughtTags | 'searched' | 'none'

/** The thoughts of a reply that is read. */
export interface Thoughts {
  readonly tags: ThoughtTags
  /**
   * The place of the first character: `inside`, because the prompt opened the thoughts, or
   * `outside`. `unknown`: text up to a closing tag that was not opened is thoughts too.
   */
  readonly place: 'inside' | 'outside' | 'unknown'
  /** `reasoning`: apart from the text. `text`: part of the text, in which no calls are read. */
  readonly as: 'reasoning' | 'text'
}

/** The thoughts of a reply of which only the text is known. */
export const UNKNOWN_THOUGHTS: Thoughts = { tags: THINK_TAGS, place: 'unknown', as: 'text' }

/**
 * Returns how the thoughts of a reply are read after its prompt, which may have opened them. A
 * model without tags of its own may still write `<think>`: that is text, in which no calls are
 * read.
 */
export const thoughtsAfter = (prompt: string, setting: ThoughtSetting): Thoughts | 'searched' => {
  if (setting === 'searched') return setting
  const tags = setting === 'none' ? THINK_TAGS : setting
  const place = prompt.trimEnd().endsWith(tags[0]) ? 'inside' : 'outside'
  return { tags, place, as: setting === 'none' ? 'text' : 'reasoning' }
}

/** Returns the parts of a text outside of its thoughts, as pairs of start and end. */
export const answerRanges = (
  text: string,
  [open, close]: ThoughtTags = THINK_TAGS,
): readonly (readonly [start: number, end: number])[] => {
  const ranges: (readonly [number, number])[] = []
  const first = text.indexOf(close)
  const isOpened = first !== -1 && text.lastIndexOf(open, first) === -1 // by the prompt
  let start = isOpened ? first + close.length : 0
  for (let opened = text.indexOf(open, start); opened !== -1; opened = text.indexOf(open, start)) {
    ranges.push([start, opened])
    const closed = text.indexOf(close, opened + open.length)
    if (closed === -1) return ranges
    start = closed + close.length
  }
  return [...ranges, [start, text.length]]
}

/** Returns true if a text ends in thoughts, which have no closing tag. */
export const endsInThoughts = (text: string, tags: ThoughtTags = THINK_TAGS): boolean =>
  answerRanges(text, tags).at(-1)![1] < text.length

/**
 * Returns a text without its thoughts: what is between the tags, what is before a closing tag that
 * was not opened, and what is after an opening tag that is not closed.
 *
 * Cost     linear in the text.
 *
 * @example
 * withoutThoughts('<think>4?</think>The answer is 5.') // 'The answer is 5.'
 */
export const withoutThoughts = (text: string, tags: ThoughtTags = THINK_TAGS): string =>
  answerRanges(text, tags)
    .map(([start, end]) => text.slice(start, end))
    .join('')
