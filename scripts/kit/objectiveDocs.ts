/** The reference page of objectives: what their doc comments say, in sections. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { ALGORITHM_NAMES, ALGORITHMS } from '../../src/objectives/algorithms.js'

/** A named part of a doc comment. */
type Block = 'Equation' | 'Gradient' | 'When' | 'Used by'

const BLOCK = /^(Equation|Gradient|When|Used by|Shapes|Units|Errors|Effects|Edges|Cost|Source) +(.*)$/

/** A documented function. */
export interface Documented {
  readonly name: string
  readonly file: string
  /** The paragraphs before the blocks. */
  readonly prose: readonly string[]
  readonly blocks: ReadonlyMap<string, string>
  readonly example: readonly string[]
}

interface Section {
  readonly title: string
  readonly intro: string
  readonly names: readonly string[]
  readonly required: readonly Block[]
  /** A figure of all of them. */
  readonly figure?: string
}

const ALL: readonly Block[] = ['Equation', 'Gradient', 'When', 'Used by']
const PLAIN: readonly Block[] = ['Equation', 'When', 'Used by']

const SECTIONS: readonly Section[] = [
  {
    title: 'The policy loss',
    intro: 'An objective for tokens, an aggregation, divergences and an entropy bonus make one loss.',
    names: ['policyLoss', 'GRPOLoss', 'totalLoss', 'aggregate', 'tokenMean', 'entropy'],
    required: ALL,
  },
  {
    title: 'Objectives',
    intro:
      'Gradients are those of one token before aggregation. The figures show minus the gradient, the pull on the log-probability, and the loss, against the ratio: they are computed by the functions themselves.',
    names: [
      ...['clippedSurrogate', 'policyGradient', 'cispo', 'sapo', 'dppo', 'dro', 'clipCov', 'klCov'],
      ...['gspo', 'luspo', 'gmpo', 'vespo'],
    ],
    required: ALL,
  },
  {
    title: 'Advantages',
    intro:
      'Functions of batches: `MCAdvantage`, `GAE`, `VTrace`, and `batchAdvantage` of any estimator on plain arrays in float64. No gradient flows through them.',
    names: [
      ...['MCAdvantage', 'GAE', 'VTrace', 'defineAdvantage'],
      ...['groupAdvantage', 'grpoAdvantage', 'rlooAdvantage', 'opoAdvantage', 'gpgAdvantage'],
      ...['passKAdvantage', 'reinforcePlusPlusBaseline', 'gdpoAdvantage', 'reinforcePlusPlus', 'remaxAdvantage', 'gae'],
      ...['segmentGAE', 'segmentRewards', 'optimalTokenBaseline', 'vTrace', 'whiten'],
    ],
    required: PLAIN,
  },
  {
    title: 'Divergences',
    intro: 'Estimated from the log-probabilities of sampled tokens: in the loss, or in the reward.',
    names: ['klTerm', 'klPenalizedRewards', 'ConstantKLController', 'AdaptiveKLController'],
    required: PLAIN,
  },
  {
    title: 'Off-policy correction and masks',
    intro: 'Numbers that each token is multiplied by, and which tokens there are.',
    names: ['rolloutCorrection', 'offPolicyWeights', 'highEntropyWeights', 'essOf', 'maskOfSpans'],
    required: PLAIN,
  },
  {
    title: 'Other losses',
    intro: 'Learning from given completions, from pairs, from another model, and the loss of a value function.',
    names: [
      ...['SFTLoss', 'dpoLoss', 'rewardModelLoss', 'DistillationLoss', 'vocabularyDivergence', 'valueLoss', 'ppoLoss'],
    ],
    required: ALL,
  },
  {
    title: 'Optimizers',
    intro:
      'Pairs of `init` and `update`. In the equations p is a parameter, g its gradient, $\\eta$ the learning rate, $\\lambda$ the weight decay and t the number of the step, from 1.',
    names: [
      ...['adamW', 'sgd', 'lion', 'adafactor', 'muon', 'orthogonalized', 'grouped'],
      ...['globalNorm', 'clipByGlobalNorm', 'weightAverage'],
    ],
    required: PLAIN,
  },
  {
    title: 'Schedules',
    intro: 'Numbers that change with the step s, counted from 0: learning rates and coefficients.',
    names: ['constant', 'linear', 'cosine', 'warmUp'],
    required: PLAIN,
    figure: 'schedules',
  },
]

/** Exports without mathematics of their own. */
const PLUMBING: readonly string[] = [
  ...['countsOf', 'algorithmLoss', 'mapNamed', 'batchAdvantage', 'defineLoss', 'MCAdvantageSelector'],
]

/** Functions of other folders that belong to the page. */
const GUESTS: Readonly<Record<string, string>> = {
  entropy: 'packages/tfjs-onnxruntime/src/ops/logProbs.ts',
  maskOfSpans: 'src/data/tokenMasks.ts',
  constant: 'packages/base/src/schedule.ts',
  linear: 'packages/base/src/schedule.ts',
  cosine: 'packages/base/src/schedule.ts',
  warmUp: 'packages/base/src/schedule.ts',
}

const FOLDER = 'src/objectives'

const parsed = (file: string): ts.SourceFile =>
  ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true)

/** The lines of a doc comment without its frame. */
const linesOf = (comment: string): readonly string[] =>
  comment
    .replace(/^\/\*\*/, '')
    .replace(/\*\/$/, '')
    .split('\n')
    .map((line) => line.replace(/^ \* ?/, '').trimEnd())

const paragraphs = (lines: readonly string[]): readonly string[] =>
  lines
    .join('\n')
    .split(/\n{2,}/)
    .map((text) => text.replaceAll('\n', ' ').trim())
    .filter((text) => text !== '')

/** A doc comment in its parts. */
const documentedOf = (name: string, file: string, comment: string): Documented => {
  const lines = linesOf(comment)
  const at = lines.indexOf('@example')
  const [told, example] = at < 0 ? [lines, []] : [lines.slice(0, at), lines.slice(at + 1)]
  const blocks = new Map<string, string>()
  const prose: string[] = []
  let open: string | undefined
  for (const line of told) {
    const [, block, text] = BLOCK.exec(line) ?? []
    if (block !== undefined) blocks.set(block, text!)
    else if (open !== undefined && line !== '') blocks.set(open, `${blocks.get(open)} ${line.trim()}`)
    else prose.push(line)
    open = line === '' ? undefined : (block ?? open)
  }
  return { name, file, prose: paragraphs(prose), blocks, example: example.filter((line) => line !== '') }
}

/** The exported functions of a file with their doc comments. */
const functionsOf = (file: string): readonly Documented[] =>
  parsed(file).statements.flatMap((statement) => {
    if (!ts.isVariableStatement(statement)) return []
    const [declaration] = statement.declarationList.declarations
    const isFunction = declaration?.initializer !== undefined && ts.isArrowFunction(declaration.initializer)
    if (!isFunction) return []
    const comment = ts.getJSDocCommentsAndTags(statement).at(-1)?.getText() ?? ''
    return [documentedOf(declaration.name.getText(), file, comment)]
  })

const DOORS = ['src/index.ts', 'src/doors/objectives.ts']

const exportedBy = (door: string): readonly Documented[] =>
  parsed(door).statements.flatMap((statement) => {
    const isList = ts.isExportDeclaration(statement) && !statement.isTypeOnly && statement.exportClause !== undefined
    if (!isList || !ts.isNamedExports(statement.exportClause!)) return []
    const file = join(dirname(door), statement.moduleSpecifier!.getText().slice(1, -1).replace(/\.js$/, '.ts'))
    if (!file.startsWith(`${FOLDER}/`)) return []
    const names = statement.exportClause.elements.flatMap((each) => (each.isTypeOnly ? [] : [each.name.text]))
    return functionsOf(file).filter(({ name }) => names.includes(name))
  })

/** Finds the functions of `src/objectives` that the package exports, and the guests. */
export const objectiveDocs = (): readonly Documented[] => {
  const exported = DOORS.flatMap((door) => exportedBy(door))
  const guests = Object.entries(GUESTS).flatMap(([name, file]) =>
    functionsOf(file).filter((each) => each.name === name),
  )
  return [...exported, ...guests]
}

/** Returns the missing parts of doc comments, by name; empty if the page is complete. */
export const problemsOf = (docs: readonly Documented[]): readonly string[] => {
  const placed = SECTIONS.flatMap(({ names }) => names)
  const lost = [...placed, ...PLUMBING].filter((name) => !docs.some((each) => each.name === name))
  return [
    ...lost.map((name) => `${name} is on the page and is no exported function`),
    ...docs
      .filter(({ name }) => !placed.includes(name) && !PLUMBING.includes(name))
      .map(({ name, file }) => `${name} of ${file} is in no section of scripts/kit/objectiveDocs.ts`),
    ...SECTIONS.flatMap(({ names, required }) =>
      docs
        .filter(({ name }) => names.includes(name))
        .flatMap(({ name, file, blocks }) =>
          required.filter((block) => !blocks.has(block)).map((block) => `${name} of ${file} has no block ${block}`),
        ),
    ),
  ]
}

/** `$x$` as GitHub reads it whatever is in it. */
const math = (text: string): string => text.replace(/\$([^$`]+)\$/g, (_, inner) => `$\`${inner}\`$`)

const firstSentence = (text: string): string => /^.*?\.(?= |$)/.exec(text)?.[0] ?? text

/** The parts of a figure besides its curves. */
export type Captions = ReadonlyMap<string, string>

/** Returns a figure with its caption; empty if the name is unknown. */
const figureOf = (name: string, captions: Captions): readonly string[] => {
  const caption = captions.get(name)
  return caption === undefined ? [] : [`![${caption}](images/objectives/${name}.svg)`, '', caption, '']
}

const entry = ({ name, file, prose, blocks, example }: Documented, captions: Captions): readonly string[] => {
  const parts = [...ALL, 'Shapes', 'Edges', 'Errors', 'Source'].flatMap((block) => {
    const text = blocks.get(block)
    return text === undefined ? [] : [`- **${block}** ${math(text)}`]
  })
  return [
    `### ${name}`,
    '',
    `[\`${file}\`](../${file})`,
    '',
    ...prose.flatMap((text) => [math(text), '']),
    ...parts,
    '',
    ...figureOf(name, captions),
    ...(example.length === 0 ? [] : ['```ts', ...example, '```', '']),
  ]
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

const algorithmTable = (): readonly string[] => [
  '## Algorithms by name',
  '',
  'What `tandem train --algorithm` and `algorithmLoss` know: an advantage, an objective and an aggregation. `L` is the length of the longest completion.',
  '',
  '| Name | Method | Objective | Range | Aggregation | Source |',
  '| --- | --- | --- | --- | --- | --- |',
  ...ALGORITHM_NAMES.map((name) => {
    const { title, source, clip, objective, aggregation } = ALGORITHMS[name]
    const how = aggregation(1)
    const mode = typeof how === 'string' ? how : `${how.mode}, length L`
    const made = objective(clip ?? [0.2, 0.2]).name
    return `| \`${name}\` | ${title} | [${made}](#${made.toLowerCase()}) | ${clip === null ? 'none' : clip.join(', ')} | ${mode} | ${cell(source)} |`
  }),
  '',
]

const HEAD = `<!-- Made by \`npm run make -- objectives\` from the doc comments of src/objectives: change those. -->

# Objectives

Every advantage, loss, divergence and optimizer: its equation, its gradient, when to use it, who does, and where it is from.

$t$ is a token of a completion and $m_t$ is 1 where it counts; $A_t$ is its advantage, $w_t = \\pi_t / \\pi_t^{old}$ its ratio, $\\operatorname{sg}$ stops the gradient. $N$ are
the tokens and $S$ the completions of the mini-batch, $L_i$ the tokens of completion i, G the completions of a group and $R_i$ their returns. Log-probabilities are in nats.
`

const WIDTH = 100

/** Words of Markdown. Formulas, code and links are not divided. */
const WORD = /(?:\$`[^`]*`\$|`[^`]*`|\[[^\]]*\]\([^)\s]*\)|\S)+/g

/** Words that start a list, a heading or a quotation at the beginning of a line. */
const MARKER = /^(?:[-+*>#]|\d+[.)])$/

/** Wraps a paragraph or an item of a list. */
const wrapLine = (line: string): readonly string[] => {
  const indent = line.startsWith('- ') ? '  ' : ''
  const lines: string[] = []
  for (const word of line.match(WORD) ?? []) {
    const last = lines.at(-1)
    if (last !== undefined && (last.length + word.length < WIDTH || MARKER.test(word) || last.trim() === '-'))
      lines[lines.length - 1] = `${last} ${word}`
    else lines.push(last === undefined ? word : `${indent}${word}`)
  }
  return lines.length === 0 ? [''] : lines
}

/** Wraps lines of Markdown, except tables, pictures, headings, HTML and code. */
const wrapped = (lines: readonly string[]): readonly string[] => {
  let isCode = false
  return lines.flatMap((line) => {
    if (line.startsWith('```')) isCode = !isCode
    return isCode || /^(?:```|[|!<#]|\s)/.test(line) || line.length <= WIDTH ? [line] : wrapLine(line)
  })
}

/** The text of the page. */
export const objectivesPage = (docs: readonly Documented[], captions: Captions): string => {
  const byName = new Map(docs.map((each) => [each.name, each]))
  const found = (names: readonly string[]) => names.flatMap((name) => byName.get(name) ?? [])
  const contents = SECTIONS.flatMap(({ title, names }) => [
    `**${title}**`,
    '',
    ...found(names).map(
      ({ name, prose }) => `- [${name}](#${name.toLowerCase()}): ${math(firstSentence(prose[0] ?? ''))}`,
    ),
    '',
  ])
  const sections = SECTIONS.flatMap(({ title, intro, names, figure }) => [
    `## ${title}`,
    '',
    math(intro),
    '',
    ...(figure === undefined ? [] : figureOf(figure, captions)),
    ...found(names).flatMap((each) => entry(each, captions)),
  ])
  const lines = [math(HEAD), ...contents, ...algorithmTable(), ...sections].join('\n').split('\n')
  return wrapped(lines).join('\n').trimEnd().concat('\n')
}
