/** The lab: checkpoints on held-out tasks, a step with other settings, and any text over time. */
import { runPath, stream } from './api.js'
import { card, fill, h, table } from './dom.js'
import { flat, number, setting, signed } from './format.js'
import { busy, drawProbability } from './inspector.js'
import { address } from './router.js'
import { frame, loadRun } from './runFrame.js'
import { tokenText } from './transcript.js'
import { visible } from './visible.js'

/** @typedef {import('../../src/view/modelProtocol.ts').EvaluateRequest} EvaluateRequest */
/** @typedef {import('../../src/view/modelProtocol.ts').EvaluateLine} EvaluateLine */
/** @typedef {import('../../src/view/modelProtocol.ts').ReplayRequest} ReplayRequest */
/** @typedef {import('../../src/view/modelProtocol.ts').ReplayLine} ReplayLine */

const can = (run, feature) => run.features.includes(feature)

const numeric = (value) => ({ value, class: 'num' })

const stepName = (step) => (step === 0 ? 'initial weights' : `step ${step}`)

const textProbability = (run, signal) => {
  const prompt = h('textarea', { rows: 2, placeholder: 'What comes before, such as a question' })
  const text = h('textarea', { rows: 2, placeholder: 'The text whose probability to compute' })
  const output = h('div', { 'aria-live': 'polite' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Compute')
  const submit = (event) => {
    event.preventDefault()
    if (text.value === '') return
    busy(button, output, async () => {
      const lines = []
      fill(output, h('p', { class: 'muted small' }, 'Loading checkpoints …'))
      await stream(
        `${runPath(run.id)}/probability`,
        { prompt: prompt.value, text: text.value },
        (line) => {
          lines.push(line)
          fill(
            output,
            drawProbability(lines, signal),
            lines.map((each) => textRow(each)),
          )
        },
        signal,
      )
    })
  }
  return card(
    'Probability of a text in every checkpoint',
    null,
    h(
      'form',
      { class: 'pad', onsubmit: submit },
      h('label', { class: 'field' }, 'Prompt', prompt),
      h('label', { class: 'field' }, 'Text', text),
      button,
    ),
    h('div', { class: 'pad' }, output),
  )
}

/** The text of one checkpoint, each token colored by its log-probability. */
const textRow = ({ step, tokens }) =>
  h(
    'p',
    { class: 'text tokens' },
    h('span', { class: 'muted small' }, `${stepName(step)}  `),
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

const evaluation = (run, signal) => {
  const chosen = new Set([run.checkpoints[0], run.checkpoints[run.checkpoints.length - 1]])
  const boxes = run.checkpoints.map((step) =>
    h(
      'label',
      {},
      h('input', {
        type: 'checkbox',
        checked: chosen.has(step),
        onchange: (event) => (event.target.checked ? chosen.add(step) : chosen.delete(step)),
      }),
      stepName(step),
    ),
  )
  const tasks = h('input', { type: 'number', value: '20', min: 1, max: 1000 })
  const output = h('div', { class: 'stack', 'aria-live': 'polite' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Evaluate')
  const submit = (event) => {
    event.preventDefault()
    const checkpoints = run.checkpoints.filter((step) => chosen.has(step))
    if (checkpoints.length === 0) return
    busy(button, output, async () => {
      const progress = h('p', { class: 'muted small' }, 'Starting …')
      fill(output, progress)
      const [scores, compared] = [[], []]
      const draw = () =>
        fill(
          output,
          progress,
          scoresTable(scores),
          compared.length === 0 ? null : completionsTable(checkpoints, compared),
        )
      await stream(
        `${runPath(run.id)}/evaluate`,
        { checkpoints, tasks: Number(tasks.value) },
        (line) => {
          if (line.type === 'progress')
            progress.textContent = `${stepName(line.checkpoint)}: ${line.done} of ${line.tasks} tasks`
          else (line.type === 'scores' ? scores : compared).push(line)
          if (line.type !== 'progress') draw()
        },
        signal,
      )
      progress.textContent = ''
    })
  }
  return card(
    'Checkpoints on held-out tasks',
    null,
    h('form', { class: 'tools pad', onsubmit: submit }, boxes, h('label', {}, 'Tasks', tasks), button),
    h('div', { class: 'pad' }, output),
  )
}

const scoresTable = (lines) => {
  const names = [...new Set(lines.flatMap(({ scores }) => Object.keys(scores)))]
  const rows = lines.map(({ checkpoint, name, scores }) => [
    stepName(checkpoint),
    visible(name),
    ...names.map((each) => numeric(number(scores[each]))),
  ])
  return lines.length === 0
    ? null
    : table(
        ['Checkpoint', 'Evaluator', ...names.map((name) => numeric(visible(name)))],
        rows,
        'Scores of the checkpoints',
      )
}

const completionsTable = (checkpoints, lines) => {
  const rows = lines.map(({ query, answer, completions }) => [
    h(
      'div',
      { class: 'cell-text' },
      visible(query.slice(0, 600)),
      answer === null ? null : h('div', { class: 'muted small' }, 'answer: ', visible(answer.slice(0, 300))),
    ),
    ...completions.map(({ text, reward }) =>
      h(
        'div',
        { class: 'cell-text' },
        h('strong', {}, number(reward)),
        h('div', { class: 'text', dir: 'ltr' }, tokenText(text.slice(0, 1500))),
      ),
    ),
  ])
  return table(['Task', ...checkpoints.map(stepName)], rows, 'Completions of the checkpoints')
}

/** Reads `1e-4`, `true` or `dapo` as a setting. */
const settingFrom = (text) => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const replay = (run, query, signal) => {
  const batches = run.batches
  const first = batches.includes(Number(query.step)) ? Number(query.step) : batches[0]
  const step = h('input', { type: 'number', min: 1, max: run.step, value: String(first ?? run.step), list: 'batches' })
  const known = flat(run.settings)
  const name = h(
    'select',
    {},
    h('option', { value: '' }, 'nothing: repeat it as it was'),
    known.map(([path, value]) => h('option', { value: path }, `${path} (${setting(value)})`)),
  )
  const value = h('input', { placeholder: 'new value', 'aria-label': 'New value' })
  const output = h('div', { 'aria-live': 'polite' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Replay')
  const submit = (event) => {
    event.preventDefault()
    busy(button, output, async () => {
      const progress = h('p', { class: 'muted small' }, 'Starting …')
      fill(output, progress)
      const settings = name.value === '' ? {} : { [name.value]: settingFrom(value.value) }
      await stream(
        `${runPath(run.id)}/replay`,
        { step: Number(step.value), settings },
        (line) => {
          if (line.type === 'progress') progress.textContent = line.message
          else if (line.type === 'record') fill(output, recordTable(line))
        },
        signal,
      )
    })
  }
  return card(
    'Replay a step with one setting changed',
    batches.length === 0
      ? null
      : h('span', { class: 'muted small' }, `saved batches: ${batches.slice(0, 12).join(', ')}`),
    h(
      'form',
      { class: 'tools pad', onsubmit: submit },
      h(
        'datalist',
        { id: 'batches' },
        batches.map((each) => h('option', { value: String(each) })),
      ),
      h('label', {}, 'Step', step),
      h('label', {}, 'Change', name),
      value,
      button,
    ),
    h('div', { class: 'pad' }, output),
  )
}

const recordTable = ({ recorded, replayed }) => {
  const rows = Object.keys({ ...recorded, ...replayed }).map((name) => {
    const [before, after] = [recorded[name], replayed[name]]
    const difference = before === undefined || after === undefined ? null : after - before
    return [
      h('span', { class: 'mono' }, visible(name)),
      numeric(number(before)),
      numeric(number(after)),
      { value: difference === 0 ? 'equal' : signed(difference), class: `num ${difference === 0 ? 'muted' : ''}` },
    ]
  })
  return table(
    ['Metric', ...['Recorded', 'Replayed', 'Difference'].map(numeric)],
    rows,
    'The step as recorded and as replayed',
  )
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const labView = async ({ path: [, id], query }, signal) => {
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
        h('span', { class: 'muted' }, 'These run the model on this computer, beside the run.'),
      ),
      can(run, 'evaluate') ? evaluation(run, signal) : null,
      can(run, 'replay') ? replay(run, query, signal) : null,
      can(run, 'probability') ? textProbability(run, signal) : null,
      can(run, 'probability') && run.rollouts > 0
        ? h(
            'p',
            { class: 'muted' },
            'For a token of a rollout, open ',
            h('a', { href: address(['run', id, 'rollouts']) }, 'a rollout'),
            ' and choose the token.',
          )
        : null,
    ),
  }
}
