/** The reward editor: other weights of the reward's parts, and the whole run scored again. */
import { get, post, runPath } from './api.js'
import { chart } from './charts.js'
import { card, fill, h, table } from './dom.js'
import { number, percent, signed } from './format.js'
import { address } from './router.js'
import { frame, loadRun, named } from './runFrame.js'

const WAIT = 200
const SHOWN = 200

const moved = (answer) =>
  [...answer.rollouts]
    .sort((a, b) => Math.abs(b.advantage - b.recordedAdvantage) - Math.abs(a.advantage - a.recordedAdvantage))
    .slice(0, 20)

const movedTable = (run, answer, rows) => {
  const byId = new Map(rows.map((row) => [row.id, row]))
  const numeric = (value) => ({ value, class: 'num' })
  const lines = moved(answer).map((each) => [
    h(
      'a',
      { href: address(['run', run.id, 'rollout', each.id]) },
      h('span', { class: 'clip' }, named(byId.get(each.id)?.snippet ?? each.id)),
    ),
    numeric(number(each.recordedReward)),
    numeric(number(each.reward)),
    numeric(signed(each.recordedAdvantage)),
    numeric(h('strong', {}, signed(each.advantage))),
  ])
  const head = ['Rollout', ...['Reward before', 'after', 'Advantage before', 'after'].map(numeric)]
  return table(head, lines, 'Rollouts whose advantage changes most')
}

const verdict = (answer) => {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
  const total = (values) => values.reduce((sum, value) => sum + value, 0)
  const tile = (label, value, note) =>
    h(
      'div',
      { class: 'tile' },
      h('span', { class: 'muted small' }, label),
      h('strong', {}, value),
      h('span', { class: 'muted small' }, note),
    )
  return h(
    'div',
    { class: 'tiles' },
    tile('Mean reward', number(mean(answer.rescored)), `recorded ${number(mean(answer.recorded))}`),
    tile('Advantages with another sign', percent(answer.signChanges), `recomputed as ${answer.advantage}`),
    tile(
      'Groups without a signal',
      total(answer.withoutSignal.rescored),
      `recorded ${total(answer.withoutSignal.recorded)}`,
    ),
  )
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const rescoreView = async ({ path: [, id] }, signal) => {
  const run = await loadRun(id, signal)
  const { rows } = await get(`${runPath(id)}/rollouts`, { limit: SHOWN, sort: 'step', order: 'desc' }, signal)
  const recorded = (await post(`${runPath(id)}/rescore`, { weights: {} }, signal)).weights
  const shown = (name) => String(Number(recorded[name].toFixed(3)))
  const weights = {}
  const output = h('div', { class: 'stack', 'aria-live': 'polite' })
  const curves = (recorded, rescored) => [
    { label: 'recorded', color: '--c6', values: recorded },
    { label: 'with these weights', color: '--c1', values: rescored },
  ]
  let charts = null
  const ask = async () => {
    try {
      const answer = await post(`${runPath(id)}/rescore`, { weights, rollouts: rows.map((row) => row.id) }, signal)
      if (charts === null) {
        const make = (title, recorded, rescored) =>
          chart({
            title,
            steps: answer.step,
            curves: curves(recorded, rescored),
            height: 190,
            group: 'rescore',
            signal,
          })
        charts = [
          make('Mean reward of the saved rollouts', answer.recorded, answer.rescored),
          make('Groups without a signal', answer.withoutSignal.recorded, answer.withoutSignal.rescored),
        ]
      } else {
        charts[0].update({ curves: curves(answer.recorded, answer.rescored) })
        charts[1].update({ curves: curves(answer.withoutSignal.recorded, answer.withoutSignal.rescored) })
      }
      fill(
        output,
        verdict(answer),
        h(
          'ul',
          { class: 'legend' },
          h('li', {}, h('i', { style: { background: 'var(--c6)' } }), 'recorded'),
          h('li', {}, h('i', { style: { background: 'var(--c1)' } }), 'with these weights'),
        ),
        h(
          'div',
          { class: 'split' },
          charts.map(({ element }) => h('div', { class: 'card pad-all' }, element)),
        ),
        card(
          'Advantages that change most',
          h('span', { class: 'muted small' }, `among the newest ${rows.length} rollouts`),
          movedTable(run, answer, rows),
        ),
      )
    } catch (error) {
      if (!signal.aborted) fill(output, h('p', { class: 'error', role: 'alert' }, error.message))
    }
  }
  let timer = 0
  const field = (name) => {
    const exact = h('input', {
      type: 'number',
      step: 0.05,
      value: shown(name),
      'aria-label': `Weight of ${name}`,
    })
    const range = h('input', {
      type: 'range',
      min: -2,
      max: 4,
      step: 0.05,
      value: shown(name),
      'aria-label': `Weight of ${name}, slider`,
    })
    const set = (from, to) => () => {
      if (from.value === '' || Number.isNaN(Number(from.value))) return
      to.value = from.value
      weights[name] = Number(from.value)
      clearTimeout(timer)
      timer = setTimeout(ask, WAIT)
    }
    exact.addEventListener('input', set(exact, range))
    range.addEventListener('input', set(range, exact))
    const reset = () => {
      exact.value = shown(name)
      range.value = shown(name)
      delete weights[name]
      ask()
    }
    return h(
      'li',
      {},
      h('span', { class: 'mono' }, named(name)),
      range,
      exact,
      h('button', { class: 'quiet', onclick: reset }, 'Reset'),
    )
  }
  await ask()
  return {
    ...frame(run, 'reward'),
    body: h(
      'div',
      { class: 'stack' },
      h('div', { class: 'head' }, h('h1', {}, 'Reward editor')),
      h(
        'p',
        { class: 'muted' },
        'The weights are fitted to the recorded rewards. Change one: the saved rollouts of the whole run are scored again; the run itself does not change.',
      ),
      run.partNames.length === 0
        ? h('p', { class: 'empty' }, 'The rollouts of this run have no parts of the reward.')
        : card('Weights of the parts', null, h('ul', { class: 'weights pad' }, run.partNames.map(field))),
      output,
    ),
  }
}
