/** The overview of a run: what it is, how it went, its curves, alarms and evaluations. */
import { get, isExported, listen, runPath } from './api.js'
import { chartGrid } from './chartGrid.js'
import { announce, card, fill, h, table } from './dom.js'
import { date, duration, number, percent, whole } from './format.js'
import { histogram } from './histogram.js'
import { address, go } from './router.js'
import { editNote, frame, loadRun, named, stateBadge, tagList } from './runFrame.js'
import { visible } from './visible.js'

/** @param {string} measure @param {number} value */
const scoreText = (measure, value) => (measure === 'success' ? percent(value) : number(value))

const fact = (label, value) =>
  value === null || value === undefined || value === '' ? null : h('div', {}, h('dt', {}, label), h('dd', {}, value))

const elapsed = ({ startedAt, updatedAt }) =>
  startedAt === null || updatedAt === null ? null : duration((new Date(updatedAt) - new Date(startedAt)) / 1000)

const text = (value) => (value === null || value === undefined ? null : visible(value))

const facts = (run) =>
  h(
    'dl',
    { class: 'facts pad' },
    fact('Model', text(run.model)),
    fact('Data', text(run.data)),
    fact('Recipe', text(run.recipe ?? 'program')),
    fact('Started', run.startedAt === null ? null : date(run.startedAt)),
    fact('Time', elapsed(run)),
    fact('Version', text(run.version)),
    fact('Machine', text(run.machine)),
    fact('Folder', h('span', { class: 'mono' }, text(run.folder))),
    run.command === null ? null : fact('Command', h('code', {}, text(run.command))),
  )

/** The headline numbers of a run. */
const numbers = (run) => {
  const tile = (label, value, note) =>
    h(
      'div',
      { class: 'tile' },
      h('span', { class: 'muted small' }, label),
      h('strong', {}, value),
      h('span', { class: 'muted small' }, note ?? '\u00a0'),
    )
  const names = [...new Set(run.evaluations.map((each) => each.name))]
  return h(
    'div',
    { class: 'tiles' },
    tile('Step', whole(run.step), run.steps === null ? undefined : `of ${whole(run.steps)}`),
    run.last.reward === undefined ? null : tile('Mean reward', number(run.last.reward), 'newest step'),
    names.map((name) => {
      const all = run.evaluations.filter((each) => each.name === name)
      const [first, last] = [all[0], all[all.length - 1]]
      const value = (each) => scoreText(each.measure, each.scores[each.score])
      return tile(
        [visible(name), ': ', visible(last.score)],
        value(last),
        all.length > 1 ? `from ${value(first)}` : undefined,
      )
    }),
    run.best === null
      ? null
      : tile('Best checkpoint', `step ${run.best.step}`, [visible(run.best.name), ' ', number(run.best.value)]),
    tile('Rollouts saved', whole(run.rollouts), h('a', { href: address(['run', run.id, 'rollouts']) }, 'Open')),
    tile(
      'Alarms',
      whole(run.alarms.length),
      run.alarms.length === 0 ? undefined : h('a', { href: address(['run', run.id, 'health']) }, 'Open'),
    ),
  )
}

const evaluationTable = (run) => {
  const rows = run.evaluations.map((each) => [
    { value: each.step, class: 'num' },
    visible(each.name),
    { value: whole(each.tasks), class: 'num' },
    [visible(each.score), ' ', h('strong', {}, scoreText(each.measure, each.scores[each.score]))],
    Object.entries(each.scores)
      .filter(([name]) => name !== each.score)
      .map(([name, value]) => h('span', { class: 'badge' }, visible(name), ' ', number(value))),
    { value: duration(each.seconds), class: 'num' },
  ])
  const head = [
    { value: 'Step', class: 'num' },
    'Evaluator',
    { value: 'Tasks', class: 'num' },
    'Score',
    'Other scores',
    { value: 'Time', class: 'num' },
  ]
  return card('Evaluations', null, table(head, rows, 'Evaluations'))
}

/** @param {object} run @returns marks of the alarms for the charts */
export const alarmMarks = (run) =>
  run.alarms.map(({ step, alarm, message }) => ({
    step,
    label: `Alarm ${alarm} at step ${step}: ${message}`,
    href: address(['run', run.id, 'health'], { alarm: step }),
  }))

/**
 * Makes the two histograms of a run, whose bins open its rollouts.
 *
 * @param {object} run
 * @param {object} histograms
 * @param {Record<string, unknown>} [filter] that the histograms are for
 */
export const histograms = (run, histograms, filter = {}) => {
  const href = (fields) => address(['run', run.id, 'rollouts'], { ...filter, ...fields })
  const chosen = (least, most) => (least === undefined ? null : [Number(least), Number(most)])
  return h(
    'div',
    { class: 'histograms' },
    histogram({
      title: 'Reward',
      histogram: histograms.reward,
      hrefOf: (minReward, maxReward) => href({ minReward, maxReward }),
      selected: chosen(filter.minReward, filter.maxReward),
    }),
    histogram({
      title: 'Length in tokens',
      histogram: histograms.length,
      hrefOf: (minLength, maxLength) => href({ minLength, maxLength }),
      selected: chosen(filter.minLength, filter.maxLength),
    }),
  )
}

/** The metrics of a run with its evaluations as one more metric. */
const curvesFrom = (run, metrics) => {
  const measured = run.evaluations.length === 0 ? [] : ['evaluation']
  const names = [...new Set(run.evaluations.map((each) => each.name))]
  const curvesOf = (name) => {
    if (name !== 'evaluation')
      return { steps: metrics().step, curves: [{ label: name, values: metrics().columns[name] ?? [], color: '--c0' }] }
    const steps = [...new Set(run.evaluations.map((each) => each.step))].sort((a, b) => a - b)
    const curves = names.map((evaluator, i) => ({
      label: evaluator,
      color: `--c${(i + 2) % 8}`,
      values: steps.map((step) => {
        const found = run.evaluations.find((each) => each.name === evaluator && each.step === step)
        return found === undefined ? null : found.scores[found.score]
      }),
    }))
    return { steps, curves }
  }
  return { names: [...measured, ...run.metricNames], curvesOf }
}

const exportMenu = (run) =>
  isExported
    ? null
    : h('a', { class: 'button', href: `${runPath(run.id)}/export?format=sft`, download: '' }, 'Export SFT data')

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const runView = async ({ path: [, id] }, signal) => {
  let run = await loadRun(id, signal)
  let [metrics, list] = await Promise.all([
    get(`${runPath(id)}/metrics`, {}, signal),
    get(`${runPath(id)}/rollouts`, { limit: 1 }, signal),
  ])
  const heading = h('div', { class: 'head' })
  const top = h('div', {})
  const openStep = (step) => go(address(['run', id, 'rollouts'], { step }))
  const { names, curvesOf } = curvesFrom(run, () => metrics)
  const grid = chartGrid({ names, curvesOf, marks: alarmMarks(run), onStep: openStep, signal })
  const rollouts = h('div', { class: 'pad' })
  const edit = () =>
    editNote(run, (row) => {
      run = { ...run, ...row }
      draw()
    })
  const canWrite = !isExported && run.features.includes('write')
  const draw = () => {
    fill(
      heading,
      h('h1', {}, named(run.name)),
      stateBadge(run.state),
      tagList(run.tags),
      canWrite ? h('button', { class: 'quiet', onclick: edit }, 'Edit note') : null,
      run.rollouts > 0 ? exportMenu(run) : null,
    )
    fill(top, numbers(run), run.note === '' ? null : h('p', { class: 'note' }, visible(run.note)))
    fill(rollouts, histograms(run, list.histogram))
  }
  draw()
  const refresh = async () => {
    try {
      ;[run, metrics, list] = await Promise.all([
        loadRun(id, signal),
        get(`${runPath(id)}/metrics`, {}, signal),
        get(`${runPath(id)}/rollouts`, { limit: 1 }, signal),
      ])
    } catch (error) {
      if (!signal.aborted) announce(error.message)
      return
    }
    draw()
    grid.refresh()
  }
  signal.addEventListener('abort', listen(`${runPath(id)}/events`, { metrics: refresh, state: refresh, note: refresh }))
  return {
    ...frame(run, null),
    body: h(
      'div',
      { class: 'stack' },
      h('div', {}, heading, top),
      card(
        'Curves',
        grid.tools,
        h(
          'div',
          { class: 'pad' },
          grid.element,
          h('p', { class: 'muted small' }, 'Drag to zoom, double-click to reset, click a step to see its rollouts.'),
        ),
      ),
      run.rollouts === 0
        ? null
        : card('Rollouts', h('a', { href: address(['run', id, 'rollouts']) }, 'All rollouts'), rollouts),
      run.evaluations.length === 0 ? null : evaluationTable(run),
      card('Run', null, facts(run)),
    ),
    keys: [
      { keys: 'l', label: 'Open the rollouts', run: () => go(address(['run', id, 'rollouts'])) },
      { keys: 'e', label: 'Edit name, tags and note', run: () => canWrite && edit() },
    ],
  }
}
