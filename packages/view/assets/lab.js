/** The lab: two checkpoints on held-out tasks, a step with other settings, any text over time. */
import { card, fill, h, table } from './dom.js'
import { flat, number, setting, signed } from './format.js'
import {
  answerPlace,
  can,
  checkpointField,
  checkpointName,
  drawProbability,
  numberField,
  numeric,
} from './modelParts.js'
import { address } from './router.js'
import { frame, loadRun } from './runFrame.js'
import { tokenText } from './transcript.js'
import { visible } from './visible.js'

/** @typedef {import('../src/modelProtocol.ts').EvaluateRequest} EvaluateRequest */
/** @typedef {import('../src/modelProtocol.ts').ReplayRequest} ReplayRequest */

/** The text of one checkpoint, each token colored by its log-probability. */
const textRow = ({ step, tokens }) =>
  h(
    'p',
    { class: 'text tokens' },
    h('span', { class: 'muted small' }, `${checkpointName(step)}  `),
    tokens.map((token) =>
      h(
        'span',
        {
          class: 'tok',
          title: `${(100 * Math.exp(token.logProb)).toFixed(2)} %`,
          style: { '--heat': 'var(--warm)', '--q': `${Math.min(46, -token.logProb * 9.2).toFixed(1)}%` },
        },
        tokenText(token.text),
      ),
    ),
  )

const textProbability = (run, signal) => {
  const prompt = h('textarea', { rows: 2, placeholder: 'A question to the model', required: true })
  const reply = h('textarea', { rows: 2, placeholder: 'A reply whose probability to compute', required: true })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Compute')
  const answer = answerPlace({ run, request: 'probability', button }, signal)
  const submit = (event) => {
    event.preventDefault()
    const lines = []
    answer.ask({ prompt: prompt.value, reply: reply.value }, (line) => {
      lines.push(line)
      fill(answer.result, drawProbability(lines, signal), lines.map(textRow))
    })
  }
  return card(
    'Probability of a text at every checkpoint',
    null,
    h(
      'form',
      { class: 'pad', onsubmit: submit },
      h('label', { class: 'field' }, 'Prompt', prompt),
      h('label', { class: 'field' }, 'Reply', reply),
      button,
    ),
    h('div', { class: 'pad' }, answer.element),
  )
}

const scoresTable = (lines) => {
  const names = [...new Set(lines.flatMap(({ scores }) => Object.keys(scores)))]
  const rows = lines.map(({ checkpoint, name, scores }) => [
    checkpointName(checkpoint),
    visible(name),
    ...names.map((each) => numeric(number(scores[each]))),
  ])
  const head = ['Checkpoint', 'Evaluator', ...names.map((name) => numeric(visible(name)))]
  return table(head, rows, 'Scores of the checkpoints')
}

const differenceText = ({ name, mean, low, high, tasks, higher, lower, same }) =>
  h(
    'p',
    { class: 'difference' },
    h('strong', {}, `Difference ${signed(mean)}`),
    low === null ? ' (no interval: all differences are equal)' : `, 95 % interval ${signed(low)} to ${signed(high)}`,
    h(
      'span',
      { class: 'muted' },
      ` · ${tasks} tasks of “`,
      visible(name),
      `”: ${higher} higher, ${lower} lower, ${same} the same`,
    ),
  )

const answersTable = (checkpoints, lines) => {
  const text = (value) => h('div', { class: 'text', dir: 'ltr' }, tokenText(value))
  const rows = lines.map(({ query, answers }) => [
    h('div', { class: 'cell-text' }, visible(query)),
    ...answers.map((each) => h('div', { class: 'cell-text' }, h('strong', {}, number(each.score)), text(each.text))),
  ])
  return table(['Task', ...checkpoints.map(checkpointName)], rows, 'Tasks with the largest differences')
}

const evaluation = (run, signal) => {
  const first = checkpointField(run, 'From', 0)
  const second = checkpointField(run, 'To', run.checkpoints.at(-1) ?? 0)
  const tasks = numberField('Tasks', '', { min: 1, max: 10_000, placeholder: 'all' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Compare')
  const answer = answerPlace({ run, request: 'evaluate', button }, signal)
  const submit = (event) => {
    event.preventDefault()
    const checkpoints = [first.value(), second.value()]
    const lines = []
    answer.ask({ checkpoints, tasks: tasks.value() }, (line) => {
      lines.push(line)
      const of = (type) => lines.filter((each) => each.type === type)
      fill(
        answer.result,
        of('difference').map(differenceText),
        scoresTable(of('scores')),
        of('task').length === 0 ? null : answersTable(checkpoints, of('task')),
      )
    })
  }
  return card(
    'Two checkpoints on the same held-out tasks',
    null,
    h('form', { class: 'tools pad', onsubmit: submit }, first.element, second.element, tasks.element, button),
    h('div', { class: 'pad' }, answer.element),
  )
}

/** Reads `1e-4`, `true` or `dapo` as a setting. */
const settingFrom = (text) => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const CHANGEABLE = /^(learner|loss|offPolicy)\.[A-Za-z]+$/

const replay = (run, signal) => {
  const after = checkpointField(run, 'Step after', run.checkpoints.findLast((step) => step < run.step) ?? 0)
  const name = h(
    'select',
    {},
    h('option', { value: '' }, 'nothing: repeat it as it was'),
    flat(run.settings)
      .filter(([path]) => CHANGEABLE.test(path))
      .map(([path, value]) => h('option', { value: path }, `${path} (${setting(value)})`)),
  )
  const value = h('input', { placeholder: 'new value', 'aria-label': 'New value' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Replay')
  const answer = answerPlace({ run, request: 'replay', button }, signal)
  const submit = (event) => {
    event.preventDefault()
    const settings = name.value === '' ? {} : { [name.value]: settingFrom(value.value) }
    answer.ask({ checkpoint: after.value(), settings }, (line) => fill(answer.result, recordTable(line)))
  }
  return card(
    'A step with one setting changed',
    null,
    h('form', { class: 'tools pad', onsubmit: submit }, after.element, h('label', {}, 'Change', name), value, button),
    h('div', { class: 'pad' }, answer.element),
  )
}

const recordTable = ({ step, recorded, repeated, changed }) => {
  const rows = Object.keys({ ...recorded, ...repeated, ...changed }).map((name) => {
    const difference = (changed[name] ?? Number.NaN) - (repeated[name] ?? Number.NaN)
    return [
      h('span', { class: 'mono' }, visible(name)),
      ...[recorded, repeated, changed].map((each) => numeric(number(each[name]))),
      { value: difference === 0 ? 'equal' : signed(difference), class: `num ${difference === 0 ? 'muted' : ''}` },
    ]
  })
  return table(
    ['Metric', ...['Recorded', 'Repeated', 'Changed', 'Difference'].map(numeric)],
    rows,
    `Step ${step} as recorded, repeated, and with the changed setting`,
  )
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const labView = async ({ path: [, id] }, signal) => {
  const run = await loadRun(id, signal)
  return {
    ...frame(run, 'lab'),
    body: h(
      'div',
      { class: 'stack' },
      h(
        'div',
        { class: 'head' },
        h('h1', {}, 'Lab'),
        h('span', { class: 'muted' }, 'These run the model on the computer of the server, one request at a time.'),
      ),
      can(run, 'evaluate') ? evaluation(run, signal) : null,
      can(run, 'replay') ? replay(run, signal) : null,
      can(run, 'probability') ? textProbability(run, signal) : null,
      can(run, 'fork')
        ? h(
            'p',
            { class: 'muted' },
            'To see why a token moved, or to fork a rollout, open ',
            h('a', { href: address(['run', id, 'rollouts']) }, 'a rollout'),
            ' and choose the token.',
          )
        : null,
    ),
  }
}
