use super::*;
use crate::report::Verdict;

static ITEM: Item = Item::required("item", "does it", "it is required");

const SETTING: Setting = Setting {
    nodes: 1,
    zones: 1,
    pods_per_node: 0,
    environment: &[],
};
/// What has to be waited for, which is longer than the patience.
const WAIT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn what_has_to_wait_takes_nothing_of_the_patience() {
    let logs = tempfile::tempdir().expect("a directory");
    let premises = Premises {
        command: ["sleep", "3600"].map(OsString::from).to_vec(),
        patience: PATIENCE,
        logs: logs.path().to_owned(),
    };
    let mut stand = Stand::set_up("name", &SETTING, &[], &premises, &Seed::new(1))
        .await
        .expect("a stand");
    stand.start().expect("there is such a program");
    let clock = stand.clock().clone();
    let begun = clock.now().mono;
    stand.pass(begun + WAIT).await.expect("time passes");
    assert!(clock.now().mono > begun + WAIT);

    let begun = clock.now().mono;
    stand.demand(&ITEM, |_| false).await.expect_err("it never holds");
    assert!(clock.now().mono > begun + PATIENCE);
    assert_eq!(found(&mut stand), "nothing of the kind within 0 s");
    let begun = clock.now().mono;
    let is_over = |_: &Timeline| clock.now().mono > begun + WAIT;
    stand.demand_after(WAIT, &ITEM, is_over).await.expect("it was to wait");
    let begun = clock.now().mono;
    let stop = stand.demand_after(WAIT, &ITEM, |_| false).await;
    stop.expect_err("it never holds");
    assert!(clock.now().mono > begun + WAIT + PATIENCE);
    assert_eq!(found(&mut stand), "nothing of the kind within 1 s");
}

/// Why the item is broken, which is forgotten with it.
fn found(stand: &mut Stand) -> String {
    let found = std::mem::take(&mut stand.findings).of(&[&ITEM]);
    match &found[..] {
        [(_, Verdict::Broken(why))] => why.clone(),
        other => panic!("it is not broken: {other:?}"),
    }
}
