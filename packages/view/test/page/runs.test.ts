/** The list of runs, the overview of a run, and the comparison of runs. */
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { describeInBrowsers, PHONE, usePages } from '../../../../test/kit/viewPages.js'
import { useViewedRuns } from '../../../../test/kit/viewServer.js'

const STEPS = 4

/** Sum of the layout shifts of a page, for its browser. */
const LAYOUT_SHIFT = `new Promise((resolve) => {
  let sum = 0
  const add = (list) => list.getEntries().forEach(({ value }) => { sum += value })
  new PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true })
  setTimeout(() => resolve(sum), 300)
})`

/**
 * Lengths of an axis, in seconds, with labels that pass the right edge of its card or overlap
 * another one. For the browser.
 */
const WIDE_AXES = `import('/assets/gantt.js').then(({ axisTime, gantt }) => {
  const main = document.querySelector('main')
  return Array.from({ length: 400 }, (_, i) => 0.004 * 1.035 ** i).filter((length) => {
    const card = document.createElement('div')
    card.className = 'card pad'
    card.append(gantt({ title: 'axis', lanes: [], length, format: axisTime }))
    main.replaceChildren(card)
    const labels = [...card.querySelectorAll('.ticks > span')].map((label) => label.getBoundingClientRect())
    return labels.some(({ right }, i) => right > (labels[i + 1]?.left ?? card.getBoundingClientRect().right))
  })
})`

const background = (page: Page) => page.evaluate('getComputedStyle(document.documentElement).backgroundColor')

const view = useViewedRuns({
  first: { steps: STEPS, checkpointEvery: 2 },
  second: { steps: STEPS, learningRate: 3e-3 },
})

describeInBrowsers('pages of runs', (browser) => {
  const pages = usePages(() => view.origin(), browser)

  it('lists runs with their state, step, reward and curve', async () => {
    const page = await pages.visit('#/runs')
    const row = page.locator('.runs tbody tr', { hasText: 'first' })
    await expect.poll(() => row.locator('.spark').count()).toBe(1)
    expect(await row.innerText()).toContain('finished')
    expect(await row.locator('td.num').first().innerText()).toContain(String(STEPS))
  })

  it('finds runs by words and fields', async () => {
    const page = await pages.visit('#/runs')
    const names = () => page.locator('.run-name a').allInnerTexts()
    await page.keyboard.press('/')
    await page.keyboard.type('second')
    await expect.poll(names).toEqual(['second'])
    await page.getByRole('searchbox').fill('state:finished')
    await expect.poll(async () => (await names()).sort()).toEqual(['first', 'second'])
    await page.getByRole('searchbox').fill('state:running')
    await expect.poll(names).toEqual([])
    expect(page.url()).toContain('state%3Arunning')
  })

  it('saves name, tags and note, and finds the run by its tag', async () => {
    const page = await pages.visit(`#/run/${await view.idOf('second')}`)
    await page.keyboard.press('e')
    await page.getByRole('textbox', { name: 'Tags' }).fill('baseline slow')
    await page.getByRole('textbox', { name: 'Note' }).fill('A smaller learning rate.')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('A smaller learning rate.').waitFor()
    await page.reload()
    await page.getByText('A smaller learning rate.').waitFor()
    await page.goto(`${view.origin()}/#/runs?q=tag%3Aslow`)
    await expect.poll(() => page.locator('.run-name a').allInnerTexts()).toEqual(['second'])
  })

  it('is used with the keyboard alone', async () => {
    const page = await pages.visit('#/runs')
    const current = () => page.locator('.runs tr[aria-current] .run-name a').innerText()
    const names = await page.locator('.run-name a').allInnerTexts()
    await page.keyboard.press('j')
    expect(await current()).toBe(names[1])
    await page.keyboard.press('k')
    expect(await current()).toBe(names[0])
    await page.keyboard.press('Enter')
    await page.waitForSelector('.tabs')
    for (const [key, tab] of Object.entries({
      l: 'Rollouts',
      h: 'Health',
      w: 'Reward',
      s: 'Settings',
      o: 'Overview',
    })) {
      await page.evaluate('document.activeElement.blur()')
      await page.keyboard.press('g')
      await page.keyboard.press(key)
      await expect.poll(() => page.locator('.tabs [aria-current]').innerText()).toBe(tab)
    }
    await page.keyboard.press('?')
    await page.getByRole('dialog').getByText('Go to all runs').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('g')
    await page.keyboard.press('r')
    await expect.poll(() => page.title()).toBe('Runs · Tandem')
    await page.keyboard.press('Escape')
    await page.waitForSelector('.tabs')
  })

  it('draws curves that share a crosshair, smooths them and finds them by name', async () => {
    const page = await pages.visit(`#/run/${await view.idOf('first')}`)
    const charts = page.locator('.chart')
    await charts.first().locator('canvas').waitFor()
    await charts.first().focus()
    await page.keyboard.press('ArrowLeft')
    await expect.poll(() => charts.nth(2).locator('.reading').innerText()).toContain(`step ${STEPS - 1}`)
    const drawn = () => page.evaluate("document.querySelector('.chart canvas').toDataURL()")
    const before = await drawn()
    await page.getByLabel('Smoothing').fill('0.9')
    await expect.poll(drawn).not.toBe(before)
    await page.getByLabel('Find metrics').fill('entropy')
    await expect.poll(() => charts.locator('.name').allInnerTexts()).toEqual(['update.entropy'])
    await page.getByLabel('Find metrics').fill('/^update\\.(loss|entropy)$/')
    await expect.poll(() => charts.locator('.name').allInnerTexts()).toEqual(['update.loss', 'update.entropy'])
    await page.getByLabel('Find metrics').fill('/(')
    await expect.poll(() => charts.count()).toBe(0)
  })

  it('opens the rollouts of a bin and of a step', async () => {
    const id = await view.idOf('first')
    const page = await pages.visit(`#/run/${id}`)
    const bin = page.getByRole('link', { name: /^Reward .* [1-9]\d* rollouts/ }).first()
    const count = /: ([\d,]+) rollouts/.exec((await bin.getAttribute('aria-label')) ?? '')?.[1]
    await bin.click()
    await expect.poll(() => page.locator('.head [role="status"]').innerText()).toMatch(new RegExp(`^${count} of `))
    await page.goto(`${view.origin()}/#/run/${id}`)
    await page.locator('.chart canvas').first().waitFor()
    await page.locator('.chart').first().focus()
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.url()).toContain(`step=${STEPS - 1}`)
  })

  it('shows every setting, and those in which runs differ', async () => {
    const page = await pages.visit(`#/run/${await view.idOf('first')}/settings`)
    await page.getByLabel('Find settings').fill('learningRate')
    await expect.poll(() => page.locator('tbody tr').first().innerText()).toContain('0.01')
    await page.goto(`${view.origin()}/#/runs`)
    await page.getByLabel('Select first').check()
    await page.keyboard.press('j')
    await page.getByLabel('Select second').check()
    await page.getByRole('button', { name: 'Compare 2 runs' }).click()
    await expect
      .poll(() => page.locator('tr', { hasText: 'learner.learningRate' }).innerText())
      .toMatch(/0\.01.*0\.003|0\.003.*0\.01/s)
    await page.locator('.chart canvas').first().waitFor()
    expect(await page.locator('.chart').first().locator('.reading > span').count()).toBe(2)
  })

  it('shows health: phases of every step and no alarm without one', async () => {
    const page = await pages.visit(`#/run/${await view.idOf('first')}/health`)
    expect(await page.locator('.timeline li').count()).toBe(STEPS)
    expect(await page.locator('.phases').first().getAttribute('aria-label')).toMatch(/^Step 1: Sampling .*Training/)
    await page.locator('.chart canvas').first().waitFor()
  })

  it('shows in lanes what waits on what, with the time of each', async () => {
    const page = await pages.visit(`#/run/${await view.idOf('first')}/health`)
    const lane = (name: string) => page.locator(`.gantt .track[aria-label^="${name}: "]`)
    expect(await lane('Sampler').getAttribute('aria-label')).toMatch(/step 1: sampling .*step 1: waits for training/)
    expect(await lane('Trainer').getAttribute('aria-label')).toMatch(/step 4: waits for sampling .*step 4: training/)
    expect(await lane('Environment').locator('.span').count()).toBe(STEPS)
    const rows = page.getByRole('region', { name: 'Busy and waiting' }).locator('tbody tr')
    const times = async (does: string) =>
      (
        await rows
          .filter({ has: page.getByText(does, { exact: true }) })
          .first()
          .innerText()
      )
        .split('\t')
        .slice(-2)
    expect(await times('training')).toEqual(await times('waits for training')) // the sampler waits meanwhile
  })

  it.skipIf(browser === 'firefox')('follows the theme of the system (Firefox of Debian emulates none)', async () => {
    const page = await pages.visit('#/runs', { colorScheme: 'dark' })
    const dark = await background(page)
    await page.emulateMedia({ colorScheme: 'light' })
    expect(await background(page)).not.toBe(dark)
  })

  it('keeps a chosen theme', async () => {
    const page = await pages.visit('#/runs')
    await page.keyboard.press('t')
    const light = await background(page)
    await page.keyboard.press('t')
    const dark = await background(page)
    expect(dark).not.toBe(light)
    await page.reload()
    expect(await background(page)).toBe(dark)
  })

  it('keeps the axis of lanes within its card for every length', async () => {
    const page = await pages.visit('#/runs', PHONE)
    const wide = await page.evaluate(WIDE_AXES)
    expect(wide).toEqual([])
  })

  it('fits a phone and does not shift while it loads', async () => {
    const id = await view.idOf('first')
    for (const hash of ['#/runs', `#/run/${id}`, `#/run/${id}/rollouts`, `#/run/${id}/health`]) {
      const page = await pages.visit(hash, PHONE)
      await page.waitForTimeout(200)
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), hash).toBeLessThanOrEqual(0)
    }
    const page = await pages.visit(`#/run/${id}`)
    const shift = await page.evaluate(LAYOUT_SHIFT)
    expect(shift).toBeLessThan(0.1)
  })
})
