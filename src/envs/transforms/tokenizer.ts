import { checkOptions } from '@tandem-rl/base'
import {
  cutRanges,
  decodeEnd,
  decodeNext,
  type EncodedText,
  encodeRendered,
  joinRanges,
  type Rendered,
  type TextTokenizer,
  type TokenSpan,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { textInputs } from '../../data/inputs.js'
import type { TokenPrompt } from '../../data/policy.js'
import { dataSpec, raggedSpec } from '../../data/spec.js'
import { type Data, data, type Ragged, ragged, raggedRow } from '../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { TEXT_OPTIONS } from '../optionKinds.js'
import { keptOf } from './keptReply.js'
import { foldedRows } from './segments.js'
import { TEXT_SPECS, type TextEntries, type TextTransformOptions } from './templateTransform.js'
import { type Transform, transform } from './transform.js'

type TextResponse = { readonly text: TensorDict<{ readonly response: Data<string> }> }
type TokenResponse = { readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }> }

const entriesOf = (encoded: readonly EncodedText[], batchShape: readonly number[]): TensorDict<TokenPrompt> =>
  TensorDict(
    {
      tokens: {
        prompt: ragged(
          'int32',
          encoded.map(({ ids }) => ids),
        ),
        spans: data(encoded.map(({ spans }) => spans)),
      },
    },
    batchShape,
  )

const renderedIn = (td: TensorDict<TextEntries>): readonly Rendered[] => {
  const [prompts, spans, given] = [get(td, 'text', 'prompt'), get(td, 'text', 'spans'), get(td, 'text', 'plainText')]
  return prompts.items
    .toArray()
    .map((text, i) => ({ text, spans: spans.items.get(i)!, plainText: given.items.get(i)! }))
}

/** The ids that the policy sampled, and their text. */
interface Sampled {
  readonly ids: ArrayLike<number>
  readonly text: string
}

/**
 * Returns the longest run of ids whose text is within the first `kept` units and ends with a whole
 * character.
 */
const cutAt = (tokenizer: TextTokenizer, { ids, text }: Sampled, kept: number): Sampled => {
  let [state, decoded] = [tokenizer.decodeStart('keep'), '']
  let [count, length] = [0, 0]
  for (let i = 0; i < ids.length && decoded.length <= kept; i++) {
    const [next, more] = decodeNext(state, [ids[i]!])
    state = next
    decoded += more
    if (decoded.length <= kept && decodeEnd(state) === '') [count, length] = [i + 1, decoded.length]
  }
  return { ids: Array.from(ids).slice(0, count), text: text.slice(0, length) }
}

/** Joins the previous tokens, the sampled ones, and those of the text that the template added. */
const continued = (
  tokenizer: TextTokenizer,
  before: { readonly prompt: ArrayLike<number>; readonly spans: readonly TokenSpan[]; readonly textLength: number },
  { sampled, kept }: { readonly sampled: Sampled; readonly kept: number },
  after: Rendered,
): EncodedText => {
  const start = before.textLength + sampled.text.length
  const [end, standing] = [after.text.length, { start, end: before.textLength + kept }] // the kept part of the last token
  const rest = encodeRendered(tokenizer, {
    text: after.text.slice(start),
    plainText: cutRanges(joinRanges([standing, ...after.plainText]), start, end),
    spans: after.spans
      .filter((span) => span.end > start)
      .map((span) => ({ ...span, start: Math.max(0, span.start - start), end: span.end - start })),
  })
  const reply = after.spans.find((span) => span.start === before.textLength)
  const [sampledStart, sampledEnd] = [before.prompt.length, before.prompt.length + sampled.ids.length]
  return {
    ids: Int32Array.from([...Array.from(before.prompt), ...Array.from(sampled.ids), ...rest.ids]),
    spans: [
      ...before.spans,
      {
        start: sampledStart,
        end: sampledEnd,
        message: reply?.message ?? -1,
        role: reply?.role ?? 'assistant',
        origin: 'sampled',
      },
      ...rest.spans.map((span) => ({ ...span, start: span.start + sampledEnd, end: span.end + sampledEnd })),
    ],
  }
}

/**
 * Encodes text to token ids on the way out, and decodes token ids to text on the way in.
 *
 * On reset, `tokens.prompt` encodes `text.prompt`. On step, it is the previous prompt, the sampled
 * ids, and the encoding of the text that the template added: sampled ids are never derived from
 * text. If a reply was changed (`history.kept`), the ids of the kept text stay. `tokens.spans`
 * contains for each range its message and whether the policy sampled it. Texts of messages
 * (`text.plainText`) never produce a special token, so users cannot end a turn or start another.
 * The inverse decodes `tokens.response` to `text.response`, with special tokens.
 *
 * Source   TorchRL `Tokenizer` and `IncrementalTokenizer`.
 */
export const Tokenizer = (options: {
  readonly tokenizer: TextTokenizer
  /** The files of the tokenizer, an input of runs: `files` of `loadPretrained`. Default: none. */
  readonly files?: Readonly<Record<string, string>>
}): Transform<null, TextEntries, TokenPrompt, TextResponse, TokenResponse> => {
  checkOptions<TextTransformOptions>('Tokenizer', options, TEXT_OPTIONS)
  const { tokenizer, files = {} } = options
  return transform<null, TextEntries, TokenPrompt, TextResponse, TokenResponse>({
    name: 'Tokenizer',
    initial: null,
    inputs: () => textInputs({ files }),
    needs: {
      observation: { text: TEXT_SPECS },
      action: { text: { response: dataSpec<string>('string') } },
    },
    adds: { tokens: { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') } },
    takes: { removes: { text: {} }, adds: { tokens: { response: raggedSpec('int32') } } },
    reset: (td) => {
      const known = new Map<string, EncodedText>() // members of a group share their prompt
      const encoded = renderedIn(td).map((rendered) => {
        const name = JSON.stringify(rendered) // equal texts may have other messages in them
        const result = known.get(name) ?? encodeRendered(tokenizer, rendered)
        known.set(name, result)
        return result
      })
      return TE.right([entriesOf(encoded, td.batchShape), null])
    },
    step: (next, { previous, action }) => {
      // Casts: the entries that this transform added to the state before and needs of the action.
      const before = previous as TensorDict<TokenPrompt & TextEntries>
      const acted = action as TensorDict<TokenResponse & TextResponse>
      const kept = keptOf(next)
      const isFolded = foldedRows(previous, next)
      const encoded = renderedIn(next).map((rendered, i) => {
        if (isFolded(i)) return encodeRendered(tokenizer, rendered)
        const whole = {
          ids: raggedRow(get(acted, 'tokens', 'response'), i),
          text: get(acted, 'text', 'response').items.get(i)!,
        }
        const part = kept(i)
        const prompt = {
          prompt: raggedRow(get(before, 'tokens', 'prompt'), i),
          spans: get(before, 'tokens', 'spans').items.get(i)!,
          textLength: get(before, 'text', 'prompt').items.get(i)!.length,
        }
        const sampled = part === null ? whole : cutAt(tokenizer, whole, part)
        return continued(tokenizer, prompt, { sampled, kept: part ?? whole.text.length }, rendered)
      })
      return TE.right([entriesOf(encoded, next.batchShape), null])
    },
    inverse: (action) => {
      const rows = get(action, 'tokens', 'response')
      const [size = 0] = action.batchShape
      const texts = Array.from({ length: size }, (_, i) => tokenizer.decode(raggedRow(rows, i), 'keep'))
      return E.right(TensorDict({ text: { response: data(texts) } }, action.batchShape))
    },
  })
}
