/**
 * Fuzzing targets: readers of untrusted text. A target rejects only because of a bug in our code.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { excerpt, keyFromSeed, memoryBytes, orThrow, parseArithmetic, parseJson, redact } from '@tandem-rl/base'
import { captureApp, type ServeOptions, serveApp } from '@tandem-rl/serve'
import {
  chatTemplate,
  codeFences,
  History,
  historyFromOpenAi,
  message,
  readCapture,
  readToolCalls,
  renderText,
  TOOL_CALL_FORMATS,
  textTokenizer,
} from '@tandem-rl/text'
import { Command, CommanderError } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { workerCommand } from '../../packages/cluster/src/commands/worker.js'
import { captureCommand } from '../../packages/serve/src/commands/capture.js'
import { serveCommand } from '../../packages/serve/src/commands/serve.js'
import { doctorCommand } from '../../src/cli/doctor.js'
import { evalCommand } from '../../src/cli/eval.js'
import { CommandError } from '../../src/cli/failure.js'
import { replayCommand } from '../../src/cli/replay.js'
import { sampleCommand } from '../../src/cli/sample.js'
import { trainCommand } from '../../src/cli/train.js'
import { decodeSafetensors } from '../../src/data/codecs/safetensors.js'
import { sameAnswer } from '../../src/envs/rewards/math/sameAnswer.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { loadText } from '../../src/modules/pretrained/pretrained.js'
import { ALLOWED, literalsIn, parsedSources, written } from '../kit/expressions.js'
import { scriptedEngine } from '../kit/plannedEngine.js'

/** Reads a text. Rejects or throws only because of a bug in our code. */
export type Target = (text: string) => unknown

const { config, text } = orThrow(await loadText(EMBEDDED_MODEL)())
const { tokenizer, template } = text

const reported = (error: unknown): void => {
  throw error
}

const options: ServeOptions = {
  engine: scriptedEngine({ tokenizer, endToken: config.endTokens[0]!, says: () => 'So it is.', maxModelLength: 128 }),
  ...{ model: { names: ['cat'], root: EMBEDDED_MODEL }, text, key: keyFromSeed(1) },
  features: {
    control: 'on',
    readAdapter: () => TE.right({ rank: 1, alpha: 1, tensors: new Map() }),
    toolCalls: 'hermes',
  },
}

/** Endpoints that wait for another request. */
const WAITS = /^\/pause/

/** Makes a request from a text: method and path in the first line, then the body. */
const requestOf = (input: string): Request | undefined => {
  const [line = '', ...rest] = input.split('\n')
  const [method = '', path = ''] = line.split(' ')
  if (!/^(GET|POST|PUT|DELETE|OPTIONS)$/.test(method) || !URL.canParse(path, 'http://localhost')) return undefined
  const url = new URL(path, 'http://localhost')
  if (WAITS.test(url.pathname)) return undefined
  const body = method === 'GET' ? null : rest.join('\n')
  return new Request(url, {
    method,
    body,
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.timeout(60_000),
  })
}

/** Sends the request, reads the whole response, and rejects for status 500. */
const asking =
  (fetch: (request: Request) => Promise<Response>): Target =>
  async (input) => {
    const request = requestOf(input)
    if (request === undefined) return
    const answer = await fetch(request)
    const said = await answer.text()
    if (answer.status === 500 && !/"WeightFailure"|adapter|weights/i.test(said))
      throw new Error(`500: ${said.slice(0, 500)}`)
  }

const bytesOf = (input: string): Uint8Array => Uint8Array.from(input, (character) => character.charCodeAt(0))

const parsers: Target = async (input) => {
  const [first = '', second = ''] = input.split('\n')
  parseJson(input)
  for (const format of TOOL_CALL_FORMATS) readToolCalls(input, format)
  const json = parseJson(input)
  if (E.isRight(json)) historyFromOpenAi(json.right)
  await readCapture(memoryBytes(bytesOf(input), 'fuzz'))
  decodeSafetensors(bytesOf(input))
  parseArithmetic(input.slice(0, 2000))
  codeFences(input)
  sameAnswer(first.slice(0, 2000), second.slice(0, 2000))
  redact(input)
  excerpt(input, 100, ['secret'])
}

const templates: Target = (input) => {
  const made = chatTemplate(input, { bos_token: '<s>', eos_token: '</s>' })
  const talk = History([message('system', 'Be kind.'), message('user', 'Hi <s>'), message('assistant', 'Yes?')])
  if (E.isRight(made)) renderText(made.right, talk, { generationPrompt: 'add' })
  orThrow(renderText(template, History([message('user', input)]), { generationPrompt: 'add' }))
}

const tokenizers: Target = (input) => {
  if (tokenizer.decode(tokenizer.encode(input), 'keep') !== input.replaceAll(/\p{Surrogate}/gu, '\ufffd'))
    throw new Error('another text')
  const json = parseJson(input)
  if (E.isLeft(json) || typeof json.right !== 'object' || json.right === null) return
  const made = textTokenizer(json.right, {})
  if (E.isRight(made)) made.right.decode(made.right.encode('Hello, World! 12  \n é 中文'), 'skip')
}

const literals = parsedSources()
  .flatMap(literalsIn)
  .filter((literal) => !ALLOWED.has(written(literal)))
  .map(({ source, flags }) => new RegExp(source, flags))

/** Matches each expression of the sources against the text and its repetition. */
const expressions: Target = (input) => {
  const unit = input.slice(0, 40)
  for (const text of [input.slice(0, 4000), unit.repeat(4000 / Math.max(1, unit.length))]) {
    for (const literal of literals) text.search(literal)
  }
}

/** Parses the arguments of all commands, without running them. */
const commandLine: Target = async (input) => {
  const none = () => TE.left({ _tag: 'None', reason: 'there is no engine here' })
  const program = new Command('tandem')
  const commands = [
    ...(await Promise.all([trainCommand, evalCommand, workerCommand].map((make) => make([])))),
    ...[sampleCommand(), replayCommand(), serveCommand(none), doctorCommand()],
    captureCommand({
      connect: () => orThrow(E.left({ _tag: 'None', reason: 'there is no server here' })),
      start: none,
    }),
  ]
  for (const command of [program, ...commands]) {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {} })
    if (command !== program) program.addCommand(command.action(() => {}))
  }
  try {
    await program.parseAsync(input.split(/\s+/).slice(0, 200), { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError || error instanceof CommandError)) throw error
  }
}

/** All targets by the names of their corpora. */
export const TARGETS: Readonly<Record<string, Target>> = {
  server: asking(serveApp({ ...options, world: { report: reported } }).fetch),
  capture: asking(captureApp({ ...options, world: { report: reported } }).fetch),
  ...{ parsers, templates, tokenizers, expressions, commandLine },
}

const CORPUS = fileURLToPath(new URL('./corpus', import.meta.url))

/** The folder of a target's corpus. */
export const corpusFolder = (name: string): string => join(CORPUS, name)

/** The texts of a target's corpus, in the order of their names. */
export const corpusOf = (name: string): readonly string[] =>
  readdirSync(corpusFolder(name))
    .sort()
    .map((file) => readFileSync(join(corpusFolder(name), file), 'utf8'))
