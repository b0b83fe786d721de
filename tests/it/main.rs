mod worker;
