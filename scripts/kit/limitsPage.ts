/** The page of limits: largest sizes of requests, files, settings and options, from the code. */
import { GGUF_LIMITS } from '@tandem-rl/gguf'
import { LARGE_BODIES, SMALL_BODY } from '@tandem-rl/host'
import { DEFAULT_LIMITS } from '@tandem-rl/serve'
import { FILE_LIMITS } from '../../packages/base/src/fileLimits.js'
import { JSON_LIMITS } from '../../packages/base/src/jsonSize.js'
import { MOST_SLOTS } from '../../packages/cluster/src/commands/worker.js'
import { MOST_COUNTED } from '../../packages/games/src/arena/config/schema.js'
import { DEFAULT_CAPTURE_LIMITS } from '../../packages/serve/src/capture/sessions.js'
import { REQUEST_LIMITS } from '../../packages/serve/src/requests/limits.js'
import { MEMORY_LIMITS } from '../../packages/serve/src/requests/responseMemory.js'
import { MAX_ROWS } from '../../packages/serve/src/rewards/app.js'
import { TINKER_REQUEST_LIMITS } from '../../packages/tinker/src/protocol/limits.js'
import { TINKER_LIMITS } from '../../packages/tinker/src/server/desk.js'
import { OPTION_LIMITS } from '../../src/cli/options.js'
import { CONFIG_LIMITS } from '../../src/modules/transformer/config/fields.js'
import { SETTING_LIMITS } from '../../src/run/parts/settings.js'

/** Limits of one place. */
export interface LimitGroup {
  readonly title: string
  readonly intro: string
  readonly limits: Readonly<Record<string, number>>
  readonly meanings: Readonly<Record<string, string>>
}

/** Makes a group. Every limit has a meaning. */
const group = <L extends Readonly<Record<string, number>>>(
  title: string,
  {
    intro,
    limits,
    meanings,
  }: { readonly intro: string; readonly limits: L; readonly meanings: Record<keyof L, string> },
): LimitGroup => ({ title, intro, limits, meanings })

const ending = (end: string): string => (end === '' ? 'any other' : end)

const own = <T extends object>(limits: T): { readonly [K in keyof T]: number } =>
  limits as { readonly [K in keyof T]: number } // interfaces have no index

/** All groups. */
export const LIMIT_GROUPS: readonly LimitGroup[] = [
  group('JSON bodies', {
    intro: 'Counted before a body is parsed, on every server. Beyond one, the answer is 400.',
    limits: JSON_LIMITS,
    meanings: {
      depth: 'levels of nesting',
      values: 'texts, names of fields, lists and objects together',
      items: 'commas',
    },
  }),
  group('Large bodies', {
    intro: `Bodies above ${SMALL_BODY / 1024} KiB are read on a thread of their own. Beyond a limit of it, the answer is 400, 413 or 503.`,
    limits: LARGE_BODIES,
    meanings: {
      limitMs: 'time to read one',
      heapMegabytes: 'heap of the thread in MiB',
      mostSize: 'bytes of all bodies that wait',
      idleMs: 'time after which the idle thread ends',
    },
  }),
  group('Lists and texts of requests', {
    intro:
      '`tandem serve`, `tandem capture` and `tandem serve --env`. A context may allow less: more messages than a context has tokens are refused before they are rendered.',
    limits: REQUEST_LIMITS,
    meanings: {
      messages: 'messages of a conversation, items of `input`',
      parts: 'parts of the content of a message',
      calls: 'tool calls of a message',
      tools: 'tools',
      documents: 'documents',
      stops: 'stop strings',
      stopLength: 'characters of a stop string',
      ids: 'ids in `stop_token_ids` and `allowed_token_ids`',
      biases: 'entries of `logit_bias`',
      prompt: 'ids of a prompt',
      fields: 'fields of metadata and of documents, parts of rewards',
      scoredText: 'characters of a text that is scored, of its prompt and of its label',
      names: 'names of requests to abort',
    },
  }),
  group('Servers of completions', {
    intro:
      '`limits` of `serveApp` and `--max-body-bytes`, `--max-logprobs`. Completions are at most those that are decoded together.',
    limits: own(DEFAULT_LIMITS),
    meanings: {
      maxBodyBytes: 'bytes of a body',
      maxLogProbs: 'log-probabilities per token',
      maxPrompts: 'prompts of a request',
      maxCompletions: 'completions of a prompt, and of all prompts of a request',
    },
  }),
  group('What servers keep', {
    intro:
      'Responses that others may refer to, sessions of `capture` (`limits` of `captureApp`), and rows of a request for rewards.',
    limits: {
      responses: MEMORY_LIMITS.responses,
      responseTokens: MEMORY_LIMITS.tokens,
      captureSessions: DEFAULT_CAPTURE_LIMITS.sessions,
      captureBytes: DEFAULT_CAPTURE_LIMITS.bytes,
      captureIdleMs: DEFAULT_CAPTURE_LIMITS.idleMs,
      rewardRows: MAX_ROWS,
    },
    meanings: {
      responses: 'stored responses, of which the oldest are forgotten',
      responseTokens: 'tokens of all stored conversations',
      captureSessions: 'captured sessions',
      captureBytes: 'bytes of all calls and metadata',
      captureIdleMs: 'time after which an unfinished session is dropped',
      rewardRows: 'rows of a request for rewards',
    },
  }),
  group('Requests of the Tinker protocol', {
    intro:
      'A request beyond a limit is refused with 422. An adapter also has to fit the free memory: otherwise `create_model` is refused with 400.',
    limits: TINKER_REQUEST_LIMITS,
    meanings: {
      name: 'characters of an id, a path or a name',
      data: 'data of a loss',
      chunks: 'chunks of a list of tokens',
      numbers: 'numbers of a tensor, tokens of a list',
      axes: 'axes of a tensor',
      fields: 'inputs of a datum, settings of a loss, tags',
      stops: 'stop strings or tokens',
      stopLength: 'characters of a stop string',
      cancelled: 'requests to cancel',
      topTokens: 'most probable tokens of a place of a prompt',
      rank: 'rank of an adapter',
      ttlSeconds: 'seconds that a checkpoint is kept',
      adam: 'learning rate, epsilon and weight decay',
      clipNorm: '`grad_clip_norm`',
      protobufFields: 'fields of a protobuf message and of those in it',
    },
  }),
  group('Servers of the Tinker protocol', {
    intro: '`limits` of `tinkerApp`. Beyond one, the answer is 429, or the oldest is dropped.',
    limits: own(TINKER_LIMITS),
    meanings: {
      sessions: 'sessions',
      models: 'models that are trained',
      samplers: 'samplers that are not checkpoints',
      samplingSessions: 'sampling sessions',
      pending: 'requests that are not finished',
      pendingBytes: 'bytes of their bodies',
      results: 'results that are held',
      resultBytes: 'bytes of results that are held',
      waiting: 'requests of one model that wait',
      samples: 'completions of a request',
      bodyBytes: 'bytes of a body',
      sessionMs: 'time without a heartbeat after which a session is closed',
      pollMs: 'time that a poll waits',
      gapMs: 'time that a request waits for those before it',
      microBatchTokens: 'tokens of a forward and backward pass, about',
    },
  }),
  group('Files', {
    intro:
      'Bytes of files that are read whole, by the end of the name; the first that fits counts. Weights may have 4 GiB each.',
    limits: Object.fromEntries(FILE_LIMITS.map(([end, bytes]) => [ending(end), bytes])),
    meanings: Object.fromEntries(FILE_LIMITS.map(([end]) => [ending(end), 'bytes'])),
  }),
  group('Models', {
    intro: 'Numbers in `config.json`. Weights have to match them, and training has to fit the memory of the machine.',
    limits: CONFIG_LIMITS,
    meanings: { size: 'sizes: vocabulary, positions, hidden units, heads', layers: 'layers' },
  }),
  group('GGUF files', {
    intro: 'A header that states more than the file can hold is refused before anything is allocated.',
    limits: GGUF_LIMITS,
    meanings: { headerBytes: 'bytes of metadata and entries', splitFiles: 'files of a split model' },
  }),
  group('Settings of runs', {
    intro:
      'Set by options, `--set` or in a program. Their product has to fit too: `tandem train` estimates the memory of a run before it starts, and no adapter is made that exceeds the memory of the machine.',
    limits: SETTING_LIMITS,
    meanings: {
      'tasks.prompts': 'tasks per step',
      'tasks.group': 'completions per task',
      'sampling.maxNewTokens': 'tokens of a completion',
      'sampling.maxLag': 'updates between sampling and training',
      'sampling.samplerThreads': 'threads of the sampler',
      'lora.rank': 'rank of an adapter',
      'compute.microBatch': 'tokens of a forward and backward pass',
      'compute.workers': 'threads that sample, score and train',
      'keep.evalTasks': 'tasks of an evaluation',
      'keep.trajectories': 'recorded trajectories of a step',
      batch: 'rows of a step',
    },
  }),
  group('Options of commands', {
    intro: [
      '`--max-model-len` is at most the number of positions of the model, and `--kv-cache-bytes` the',
      'memory of the machine or of its container.',
    ].join(' '),
    limits: { ...OPTION_LIMITS, '--slots': MOST_SLOTS },
    meanings: {
      '--count': 'completions of `tandem sample`',
      '--max-new-tokens': 'tokens of a completion',
      '--max-num-seqs': 'requests that are decoded together',
      '--slots': 'rollouts of a worker at a time',
      '--concurrent': 'chains at a time',
      '--conversations': 'conversations of `tandem agent`',
      '--chains': 'chains of a conversation',
      '--threads': 'threads for tensor operations',
      '--profile': 'steps of a profile',
    },
  }),
  group('Arena', {
    intro: 'Every count in the configuration of an arena.',
    limits: { count: MOST_COUNTED },
    meanings: { count: 'games, rounds, tokens, simulations, games at a time' },
  }),
]

const rowsOf = ({ limits, meanings }: LimitGroup): readonly string[] =>
  Object.entries(limits).map(([name, most]) => `| \`${name}\` | ${most.toLocaleString('en-US')} | ${meanings[name]} |`)

/** Breaks a text into lines of at most 100 columns. */
const wrapped = (text: string): string => {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line.length + word.length >= 100) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join('\n')
}

/** Returns the page. */
export const limitsPage = (): string =>
  [
    '# Limits',
    '',
    wrapped(
      'Every number that sizes an allocation has a largest value, which is checked before anything is allocated. This page is written by `npm run make -- limits`.',
    ),
    ...LIMIT_GROUPS.flatMap((each) => [
      '',
      `## ${each.title}`,
      '',
      wrapped(each.intro),
      '',
      '| Limit | At most | Of |',
      '| --- | ---: | --- |',
      ...rowsOf(each),
    ]),
    '',
  ].join('\n')
