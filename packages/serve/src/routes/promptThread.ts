/** The thread that reads large requests with prompts, by a tokenizer and template of its own. */
import { orThrow, type ThreadPort } from '@tandem-rl/base'
import {
  chatTemplate,
  type TemplateVariables,
  type ToolCallFormat,
  textTokenizer,
  withToolPrompt,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { answerBodies, type BodyAnswer, type BodyThread, bodyThread, readValue } from '../bodies/bodyThread.js'
import type { ApiFailure } from '../requests/failure.js'
import type { ResponseMemory } from '../requests/responseMemory.js'
import type { ReadingEnv, ServedText } from '../requests/served.js'
import { type PromptPath, readRequest } from './readers.js'

/** The tokenizer and template of a server, as they can be posted. */
interface TextSource {
  readonly tokenizer: string
  readonly settings: string
  readonly template: { readonly source: string; readonly variables: TemplateVariables; readonly now?: Date }
  readonly toolPrompt?: ToolCallFormat
}

interface PromptInput extends Omit<ReadingEnv, 'text' | 'responses'> {
  readonly text: TextSource
}

/** Returns null for a text that is not made of files, or renders conversations in its own way. */
const sourceOf = ({ files, template, conversation }: ServedText): TextSource | null => {
  const tokenizer = files?.['tokenizer.json']
  if (tokenizer === undefined || conversation !== undefined) return null
  const settings = files?.['tokenizer_config.json'] ?? '{}'
  const { source, own, toolPrompt } = template
  return { tokenizer, settings, template: { source, ...own }, ...(toolPrompt && { toolPrompt: toolPrompt.format }) }
}

const textOf = ({ tokenizer, settings, template: { source, variables, now }, toolPrompt }: TextSource): ServedText => {
  const json = (text: string): object => JSON.parse(text) as object // it was parsed before
  const template = orThrow(chatTemplate(source, variables, now === undefined ? {} : { now }))
  return {
    tokenizer: orThrow(textTokenizer(json(tokenizer), json(settings))),
    template: toolPrompt === undefined ? template : withToolPrompt(template, toolPrompt),
  }
}

/** Makes the thread of a server; null if its text cannot be made again there. */
export const promptThread = ({ text, maxModelLength, limits }: Omit<ReadingEnv, 'responses'>): BodyThread | null => {
  const source = sourceOf(text)
  return source === null
    ? null
    : bodyThread({ module: import.meta.url, exportName: 'readPromptBodies' }, {
        text: source,
        maxModelLength,
        limits,
      } satisfies PromptInput)
}

/** An empty memory of responses that records whether something was looked up. */
const watchedMemory = (): ResponseMemory & { readonly wasRead: () => boolean } => {
  let wasRead = false
  const nothing = (): undefined => {
    wasRead = true
  }
  return { item: nothing, response: nothing, store: () => undefined, wasRead: () => wasRead }
}

const isFailure = (value: unknown): value is E.Left<ApiFailure> =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'Left'

/** The JSON of a body, unless its prompt failed. */
const acceptedJson = (read: unknown, json: unknown): BodyAnswer => {
  const parts = typeof read === 'object' && read !== null ? Object.values(read) : []
  const inner = parts.flatMap((part: unknown) =>
    typeof part === 'object' && part !== null && 'conversation' in part ? [part.conversation] : [],
  )
  return [...parts, ...inner].find(isFailure) ?? E.right({ _tag: 'Parsed', json })
}

/**
 * Reads the bodies of a server. Requests that refer to earlier responses are returned as JSON.
 *
 * @public by its name, in the thread
 */
export const readPromptBodies = (port: ThreadPort, input: unknown): void => {
  const { text, ...limits } = input as PromptInput // from `promptThread`
  const env = { ...limits, text: textOf(text) }
  answerBodies(port, async ({ reader, gives }, json) => {
    const responses = watchedMemory()
    const read = await readRequest({ ...env, responses }, reader as PromptPath, json) // jobs are posted for these paths
    if (responses.wasRead()) return E.right({ _tag: 'Parsed', json })
    return gives === 'json' ? E.chain((value: unknown) => acceptedJson(value, json))(read) : readValue(read)
  })
}
