/** Thoughts as parts of a message's content, as Mistral's models write them. */
import { z } from 'zod'
import { boundedList } from '../boundedSchema.js'

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() })

/** A part with thoughts: text, or parts of text. Other kinds of parts in it are ignored. */
export const thinkingPart = z.looseObject({
  type: z.literal('thinking'),
  thinking: z.union([
    z.string(),
    boundedList(z.union([textPart, z.looseObject({ type: z.string() })]), Number.POSITIVE_INFINITY),
  ]),
})

type ThinkingPart = z.infer<typeof thinkingPart>

const isTextPart = (part: z.infer<typeof textPart> | { readonly type: string }): part is z.infer<typeof textPart> =>
  part.type === 'text'

/** Joins the text of thoughts, in order. */
export const thoughtsOf = (parts: readonly ThinkingPart[]): string =>
  parts
    .map(({ thinking }) =>
      typeof thinking === 'string' ? thinking : thinking.map((part) => (isTextPart(part) ? part.text : '')).join(''),
    )
    .join('')
