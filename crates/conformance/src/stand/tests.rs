use super::*;

static ITEM: Item = Item::required("item", "does it", "it is required");

const SETTING: Setting = Setting {
    nodes: 1,
    zones: 1,
    pods_per_node: 0,
    environment: &[],
};
/// What has to be waited for, which is longer than the patience.
const WAIT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn what_has_to_wait_takes_nothing_of_the_patience() {
    let logs = tempfile::tempdir().expect("a directory");
    let premises = Premises {
        command: ["sleep", "3600"].map(OsString::from).to_vec(),
        patience: WAIT / 2,
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
    let is_over = |_: &Timeline| clock.now().mono > begun + WAIT;
    stand.demand(&ITEM, is_over).await.expect_err("it takes too long");
    let begun = clock.now().mono;
    let is_over = |_: &Timeline| clock.now().mono > begun + WAIT;
    stand.demand_after(WAIT, &ITEM, is_over).await.expect("it was to wait");
    let stop = stand.demand_after(WAIT, &ITEM, |_| false).await;
    stop.expect_err("it never holds");
}
